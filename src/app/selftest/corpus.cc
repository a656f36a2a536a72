// Tested by corpus_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/text.h"
#include "build/build.h"
#include "os/files.h"

namespace cupel::app {
namespace {

constexpr const char* kHeaderRemedy =
    "write lines like: // exploit: 3.2 caching by content, // task: mnist_linear, // expect: "
    "rejected reads_device_memory (docs/formats/selftest.md)";

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool IsWord(std::string_view text) {
  return !text.empty() && text.size() < 100 &&
         std::all_of(
             text.begin(), text.end(),
             [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

/// Parses "rejected|unsupported compile_error|unsupported_api". Returns false for any other form.
bool ReadExpectation(std::string_view text, Specimen& specimen) {
  const auto parts = Split(text, ' ');
  if (parts.size() != 2) return false;
  specimen.decisions = Split(parts[0], '|');
  specimen.codes = Split(parts[1], '|');
  return std::all_of(specimen.decisions.begin(), specimen.decisions.end(),
                     [](const std::string& decision) {
                       return IsOneOf(decision, {"rejected", "unsupported", "error"});
                     }) &&
         std::all_of(specimen.codes.begin(), specimen.codes.end(), IsWord);
}

/// Returns false if `key` is unknown or its value is not allowed.
bool Take(std::string_view key, std::string_view value, Specimen& specimen) {
  const bool must_fail = specimen.corpus == Corpus::kMustFail;
  if (key == "task") {
    specimen.task = value;
    return IsWord(value);
  }
  if (key == "settings") {
    specimen.settings = value;
    return IsOneOf(value, {"single", "multi", "heldout", "all"});
  }
  if (key == "direction") {
    specimen.backward = value == "backward";
    return IsOneOf(value, {"forward", "backward"});
  }
  if (key == "device") {
    specimen.needs_gpu = value == "gpu";
    specimen.needs_emulator = value == "emu";
    return IsOneOf(value, {"emu", "gpu"});
  }
  if (key == "model") {
    specimen.model = value;
    return IsWord(value);
  }
  if (key == "note") {
    specimen.note = value;
    return true;
  }
  if (key == "exploit" && must_fail) {
    specimen.exploit = value;
    return true;
  }
  return key == "expect" && must_fail && ReadExpectation(value, specimen);
}

Status ReadFolder(Corpus corpus, const std::filesystem::path& folder,
                  const std::filesystem::path& data, std::vector<Specimen>& specimens) {
  std::error_code failed;
  std::vector<std::filesystem::path> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".cu") kernels.push_back(entry.path());
  }
  if (failed || kernels.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no kernels in {}{}", folder.string(),
                            failed ? ": " + failed.message() : std::string()),
                "set CUPEL_HOME to cupel's source tree, which has tests/mustfail");
  }
  std::sort(kernels.begin(), kernels.end());
  for (const auto& kernel : kernels) {
    TRY_ASSIGN(const std::string source, os::ReadFile(kernel, build::kMaxSourceBytes));
    TRY_ASSIGN(Specimen specimen, ReadSpecimen(corpus, kernel, source));
    const auto own = data / "tests" / "mustpass" / "tasks" / specimen.task;
    if (std::filesystem::exists(own, failed)) specimen.task = own.string();
    specimens.push_back(std::move(specimen));
  }
  return {};
}

}  // namespace

Result<Specimen> ReadSpecimen(Corpus corpus, const std::filesystem::path& kernel,
                              std::string_view source) {
  Specimen specimen;
  specimen.corpus = corpus;
  specimen.kernel = kernel;
  specimen.name = (kernel.parent_path().filename() / kernel.stem()).string();
  int line = 0;
  for (const std::string_view text : SplitLines(source)) {
    ++line;
    const size_t colon = text.find(": ");
    if (!text.starts_with("// ") || colon == std::string_view::npos) break;
    const std::string_view key = text.substr(3, colon - 3);
    if (!IsWord(key)) break;  // "SPDX-License-Identifier" ends the header
    if (!Take(key, text.substr(colon + 2), specimen)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}:{}: invalid header line \"{}\"", kernel.string(), line, text),
                  kHeaderRemedy);
    }
  }
  const bool must_fail = corpus == Corpus::kMustFail;
  if (specimen.task.empty() ||
      (must_fail && (specimen.codes.empty() || specimen.exploit.empty()))) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the header lacks {}", kernel.string(),
                            specimen.task.empty()    ? "\"// task:\""
                            : specimen.codes.empty() ? "\"// expect:\""
                                                     : "\"// exploit:\""),
                kHeaderRemedy);
  }
  return specimen;
}

Result<std::vector<Specimen>> ReadCorpora(const std::filesystem::path& data) {
  std::vector<Specimen> specimens;
  TRY(ReadFolder(Corpus::kMustFail, data / "tests" / "mustfail", data, specimens));
  TRY(ReadFolder(Corpus::kMustPass, data / "tests" / "mustpass", data, specimens));
  return specimens;
}

}  // namespace cupel::app
