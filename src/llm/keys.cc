// SPDX-License-Identifier: Apache-2.0
#include "llm/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "os/fd.h"

namespace cupel::llm {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxKeyBytes = 4096;
constexpr size_t kMaxKeyFileBytes = 64u << 10;

/// Validates a key. It becomes part of a header, in which a line end would start a new header.
Result<Secret> Checked(std::string_view key, const std::string& from) {
  key = Trim(key);
  const bool plain = std::ranges::all_of(key, [](char c) { return c > 0x20 && c < 0x7f; });
  if (key.empty() || key.size() > kMaxKeyBytes || !plain) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("the key in {} is not usable", from),
                fmt::format("a key is 1 to {} printable characters without spaces", kMaxKeyBytes));
  }
  return Secret(key);
}

/// Reads the file into a Secret, so that no copy remains in memory.
Result<Secret> ReadPrivately(const fs::path& file) {
  const os::Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  if (!fd || fstat(fd.get(), &info) != 0) {
    return Fail(errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not a file", file.string()));
  }
  if ((info.st_mode & 077) != 0 || (info.st_uid != geteuid() && info.st_uid != 0)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("other users can read or change the keys in {}", file.string()),
        fmt::format("run chmod 600 {}, and make sure that you own the file", file.string()));
  }
  char buffer[kMaxKeyFileBytes + 1];
  size_t used = 0;
  ssize_t n = 0;
  while (used < sizeof buffer && (n = read(fd.get(), buffer + used, sizeof buffer - used)) > 0) {
    used += static_cast<size_t>(n);
  }
  Secret text(std::string_view(buffer, used));
  explicit_bzero(buffer, sizeof buffer);
  if (n < 0 || used > kMaxKeyFileBytes) {
    return Fail(ErrorCode::kIo, fmt::format("cannot read {}: it is damaged or larger than {} bytes",
                                            file.string(), kMaxKeyFileBytes));
  }
  return text;
}

}  // namespace

fs::path ConfigDir() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return fs::path(config) / "cupel";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".config" / "cupel";
  return {};
}

fs::path KeyFile() {
  const char* file = std::getenv("CUPEL_KEYS");
  if (file != nullptr && *file != '\0') return file;
  const fs::path folder = ConfigDir();
  return folder.empty() ? fs::path() : folder / "keys";
}

Result<Secret> FindKey(const std::string& variable, const fs::path& file) {
  const char* value = std::getenv(variable.c_str());
  if (value != nullptr && *value != '\0') return Checked(value, "$" + variable);
  const std::string remedy =
      fmt::format("set {} in the environment, or write {}=… into {} and chmod it 600", variable,
                  variable, file.empty() ? "the file that $CUPEL_KEYS names" : file.string());
  if (!file.empty()) {
    const Result<Secret> text = ReadPrivately(file);
    if (!text && text.error().code != ErrorCode::kNotFound) return tl::unexpected(text.error());
    for (std::string_view line : SplitLines(text ? text->Reveal() : std::string_view())) {
      line = Trim(line);
      const size_t equals = line.find('=');
      if (line.starts_with('#') || equals == std::string_view::npos) continue;
      if (Trim(line.substr(0, equals)) == variable) {
        return Checked(line.substr(equals + 1), fmt::format("{} of {}", variable, file.string()));
      }
    }
  }
  return Fail(ErrorCode::kNotFound, fmt::format("no key: {} is not set", variable), remedy);
}

}  // namespace cupel::llm
