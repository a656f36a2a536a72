// SPDX-License-Identifier: Apache-2.0
#include "review/instructions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "os/files.h"

namespace cupel::review {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxBytes = 64u << 10;

std::optional<size_t> AspectNamed(std::string_view name) {
  for (size_t i = 0; i < kAspects; ++i) {
    if (name == Name(kAllAspects[i])) return i;
  }
  return std::nullopt;
}

}  // namespace

Instructions DefaultInstructions() { return {CompileMd(), MemoryMd(), NumericsMd()}; }

Variants DefaultVariants() {
  Variants variants;
  const Instructions texts = DefaultInstructions();
  for (size_t i = 0; i < kAspects; ++i) variants[i].push_back({"default", texts[i]});
  return variants;
}

Result<Variants> ReadVariants(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".md") files.push_back(it->path());
  }
  if (error || files.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no instructions in {}{}", folder.string(),
                            error ? ": " + error.message() : ""),
                "put files such as memory.md or memory.short.md there");
  }
  std::sort(files.begin(), files.end());
  Variants variants = DefaultVariants();
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string();
    const size_t dot = stem.find('.');
    const auto aspect = AspectNamed(stem.substr(0, dot));
    if (!aspect) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not named after a verifier", file.string()),
                  "rename it to compile.NAME.md, memory.NAME.md or numerics.NAME.md");
    }
    TRY_ASSIGN(std::string text, os::ReadFile(file, kMaxBytes));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is empty", file.string()),
                  "write instructions for the verifier into it, or remove it");
    }
    if (dot == std::string::npos) {
      variants[*aspect][0].text = std::move(text);
    } else {
      variants[*aspect].push_back({stem.substr(dot + 1), std::move(text)});
    }
  }
  return variants;
}

}  // namespace cupel::review
