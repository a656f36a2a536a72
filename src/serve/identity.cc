// SPDX-License-Identifier: Apache-2.0
#include "serve/identity.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "assay/provenance.h"
#include "base/hash.h"
#include "base/lanes.h"
#include "base/version.h"
#include "build/cache.h"
#include "oracle/scripts.h"

namespace cupel::serve {
namespace {

tl::unexpected<Error> Unreadable(const std::string& what) {
  return Fail(ErrorCode::kIo,
              fmt::format("cannot read {}, which is compared between workers", what),
              "check its permissions, or set CUPEL_HOME to the folder that holds cupel's data");
}

/// A hash of the headers that candidates are compiled against and of the oracle's Python code.
Result<std::string> DataHash(const std::filesystem::path& data) {
  Sha256 hash;
  TRY_ASSIGN(const std::string shim, build::FolderHash(data / "shim"));
  hash.Field(shim);
  const std::filesystem::path scripts = data / "src" / "oracle" / "py";
  const auto code = oracle::ScriptsHash(scripts);
  if (!code) return Unreadable(scripts.string());
  hash.Field(*code);
  return hash.Hex();
}

}  // namespace

Result<Hello> WhoAmI(const std::filesystem::path& data) {
  Hello hello;
  hello.protocol = kProtocol;
  hello.version = kVersion;
  hello.commit = Commit();
  hello.program = assay::ProgramHash();
  if (hello.program.empty()) return Unreadable("/proc/self/exe");
  TRY_ASSIGN(hello.data, DataHash(data));
  utsname info{};
  if (uname(&info) == 0) hello.host = info.nodename;
  hello.pid = getpid();
  hello.cores = static_cast<int64_t>(Cores());
  return hello;
}

std::optional<Error> Incompatibility(const Hello& ours, const Hello& worker) {
  const auto refuse = [&](std::string what, std::string remedy) {
    return Error{ErrorCode::kEnvironment,
                 fmt::format("the worker on {} {}", worker.host.empty() ? "?" : worker.host, what),
                 std::move(remedy)};
  };
  const char* same =
      "install the same build on both machines, or give the path of the matching one in --workers";
  if (worker.protocol != ours.protocol) {
    return refuse(fmt::format("uses protocol {}, not {}", worker.protocol, ours.protocol), same);
  }
  if (worker.version != ours.version || worker.program != ours.program) {
    const auto name = [](const Hello& hello) {
      return fmt::format("{} {} ({})", hello.version,
                         hello.commit.empty() ? "of an unknown commit" : hello.commit.substr(0, 12),
                         hello.program.substr(0, 12));
    };
    return refuse(fmt::format("is cupel {}, this is {}", name(worker), name(ours)), same);
  }
  if (worker.data != ours.data) {
    return refuse("has different headers (shim/) or a different oracle.py than this program",
                  "install the same data on both machines, or set CUPEL_HOME on the worker's");
  }
  return std::nullopt;
}

}  // namespace cupel::serve
