// Tested by one_shot_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/one_shot.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/parse_number.h"
#include "gpu/cupti.h"
#include "gpu/program.h"
#include "gpu/remote.h"
#include "os/fd.h"
#include "os/files.h"
#include "os/mapped_file.h"
#include "plan/codec.h"

namespace cupel::gpu {
namespace {
namespace fs = std::filesystem;

constexpr const char* kPlanFile = "plan.json";
constexpr size_t kMostPtxBytes = 256u << 20;
/// Long, because a profiler replays each kernel many times. The parent ends this process if it
/// takes too long.
constexpr std::chrono::milliseconds kTimeoutUnderProfiler = std::chrono::hours(1);
constexpr std::chrono::seconds kMostOfRepeats{20};
constexpr int kMostRepeats = 1000;

/// `kind` is "ptx" or "cubin".
fs::path ImageFile(const fs::path& folder, size_t i, std::string_view kind) {
  return folder / fmt::format("image-{}.{}", i, kind);
}

fs::path ArgumentFile(const fs::path& folder, size_t i) {
  return folder / fmt::format("argument-{}.bin", i);
}

/// Writes a new file. Unlike WriteFileAtomically it does not wait for the disk, because arguments
/// can have many gigabytes.
Status WriteNewFile(const fs::path& path, std::string_view bytes) {
  const os::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  }
  return os::WriteAll(file.get(), bytes);
}

struct Options {
  fs::path folder;
  int ordinal = 0;
  int cupti_repeats = 0;
};

bool ToInt(std::string_view text, int* value) {
  *value = ParseNumber<int>(text).value_or(-1);
  return *value >= 0;
}

Result<Options> ParseOptions(int argc, char** argv) {
  Options options;
  bool good = argc >= 3;
  if (good) options.folder = argv[2];
  for (int i = 3; good && i < argc; i += 2) {
    const std::string_view name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    good = (name == "--device" && ToInt(value, &options.ordinal)) ||
           (name == "--cupti" && ToInt(value, &options.cupti_repeats) &&
            options.cupti_repeats >= 1 && options.cupti_repeats <= kMostRepeats);
  }
  if (good) return options;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("usage: cupel {} FOLDER [--device N] [--cupti REPEATS]", kOneShotCommand));
}

Json FindingsJson(const engine::Run& run) {
  Json list = Json::array();
  for (const records::Finding& finding : run.findings) {
    list.push_back({{"code", finding.code},
                    {"kernel", finding.kernel},
                    {"where", finding.where},
                    {"message", finding.message}});
  }
  return list;
}

/// The opened contents of a folder.
struct Loaded {
  plan::Plan plan;
  build::Images images;
  std::vector<os::MappedFile> files;
  std::vector<std::span<const std::byte>> arguments;
};

Result<Loaded> LoadFolder(const fs::path& folder) {
  Loaded loaded;
  TRY_ASSIGN(const std::string text, os::ReadFile(folder / kPlanFile, kMaxJsonBytes));
  TRY_ASSIGN(const Json json, ParseJson(text, kPlanFile));
  TRY_ASSIGN(loaded.plan, plan::FromJson(json, kPlanFile));
  std::error_code ignored;
  for (size_t i = 0; fs::exists(ImageFile(folder, i, "ptx"), ignored); ++i) {
    auto image = std::make_shared<build::Image>();
    TRY_ASSIGN(image->ptx, os::ReadFile(ImageFile(folder, i, "ptx"), kMostPtxBytes));
    const fs::path cubin = ImageFile(folder, i, "cubin");
    if (fs::exists(cubin, ignored)) image->cubin = cubin;
    loaded.images.push_back(std::move(image));
  }
  for (size_t i = 0; fs::exists(ArgumentFile(folder, i), ignored); ++i) {
    TRY_ASSIGN(os::MappedFile file, os::MappedFile::Open(ArgumentFile(folder, i)));
    loaded.arguments.push_back(file.bytes());
    loaded.files.push_back(std::move(file));
  }
  return loaded;
}

Json TimesJson(const std::vector<KernelTime>& times) {
  Json list = Json::array();
  for (const KernelTime& time : times) list.push_back({time.name, time.end_ns - time.start_ns});
  return list;
}

/// Executes one call, or several with CUPTI's clock. Of these the first warms up and is not
/// reported.
Result<Json> Execute(const Options& options) {
  TRY_ASSIGN(const Loaded loaded, LoadFolder(options.folder));
  std::unique_ptr<KernelClock> clock;
  if (options.cupti_repeats > 0) {
    TRY_ASSIGN(clock, KernelClock::Start());
  }
  TRY_ASSIGN(auto driver, OpenDriver());
  TRY_ASSIGN(const auto device, Device::Open(std::move(driver), options.ordinal));
  ReplayOptions replay;
  replay.deadline = kTimeoutUnderProfiler;
  TRY_ASSIGN(replay.variables, VariablesOf(loaded.images));
  TRY_ASSIGN(const auto program, LoadProgram(*device, loaded.images, std::move(replay)));
  Json calls = Json::array();
  engine::Run run;
  const auto end = std::chrono::steady_clock::now() + kMostOfRepeats;
  for (int i = 0; i <= options.cupti_repeats; ++i) {
    if (i > 1 && std::chrono::steady_clock::now() > end) break;
    if (clock) TRY(clock->Begin());
    TRY_ASSIGN(run, program->Execute(loaded.plan, loaded.arguments, {}));
    if (!run.completed) break;
    if (!clock) continue;
    TRY_ASSIGN(const std::vector<KernelTime> times, clock->End());
    if (i > 0) calls.push_back(TimesJson(times));
  }
  return Json{{"completed", run.completed},
              {"unsupported", run.unsupported},
              {"findings", FindingsJson(run)},
              {"clock", clock ? fmt::format("CUPTI {}", clock->version()) : std::string()},
              {"calls", std::move(calls)}};
}

}  // namespace

Status WriteOneShot(const fs::path& folder, const plan::Plan& plan, const build::Images& images,
                    std::span<const std::span<const std::byte>> arguments) {
  TRY(WriteNewFile(folder / kPlanFile, DumpJson(plan::ToJson(plan))));
  for (size_t i = 0; i < images.size(); ++i) {
    TRY(WriteNewFile(ImageFile(folder, i, "ptx"), images[i]->ptx));
    if (images[i]->cubin.empty()) continue;
    std::error_code error;
    fs::copy_file(images[i]->cubin, ImageFile(folder, i, "cubin"), error);
    if (error) {
      return Fail(ErrorCode::kIo, fmt::format("cannot copy {} to {}: {}", images[i]->cubin.string(),
                                              folder.string(), error.message()));
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* bytes = reinterpret_cast<const char*>(arguments[i].data());
    TRY(WriteNewFile(ArgumentFile(folder, i), std::string_view(bytes, arguments[i].size())));
  }
  return {};
}

int OneShotMain(int argc, char** argv) {
  const auto options = ParseOptions(argc, argv);
  const Result<Json> done =
      options ? Execute(*options) : Result<Json>(tl::unexpected<Error>(options.error()));
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
    return 2;
  }
  std::printf("%s\n", DumpJson(*done).c_str());
  std::fflush(stdout);
  return (*done)["completed"].get<bool>() ? 0 : 1;
}

Result<std::shared_ptr<void>> Reserve(const OneShotOptions& options) {
  if (!options.reserve) return std::shared_ptr<void>();
  return options.reserve();
}

}  // namespace cupel::gpu
