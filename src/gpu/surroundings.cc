// SPDX-License-Identifier: Apache-2.0
#include "gpu/surroundings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace cupel::gpu {
namespace {

constexpr std::string_view kClock = "%globaltimer";
constexpr std::string_view kProcessor = "%smid";
constexpr uint64_t kNanosecondsOfAYear = 31'557'600'000'000'000;
constexpr uint64_t kMostProcessors = 1024;  // more than any GPU has

/// The first read at or after `from`; npos if there is none.
size_t FindRead(std::string_view ptx, size_t from) {
  return std::min(ptx.find(kClock, from), ptx.find(kProcessor, from));
}

/// The start of the statement that contains `at`: after the previous statement, and after labels,
/// directives and comments.
size_t BeginOfStatement(std::string_view ptx, size_t at) {
  size_t begin = ptx.substr(0, at).find_last_of(";{}");
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  for (;;) {
    const size_t word = ptx.find_first_not_of(" \t\r\n", begin);
    if (word >= at) return begin;
    const size_t end = ptx.find('\n', word);
    const std::string_view line = ptx.substr(word, end - word);
    const bool is_label = line.find(':') != std::string_view::npos;
    const bool is_none = line.starts_with('.') || line.starts_with("//") || is_label;
    if (!is_none || end >= at) return word;
    begin = end + 1;
  }
}

/// The statement with a register instead of the date (or of one half of it).
std::string WithOtherDate(std::string_view statement) {
  std::string changed(statement);
  const size_t at = changed.find(kClock);
  const std::string_view rest = std::string_view{changed}.substr(at + kClock.size());
  const char* source = "cupel_now";
  size_t length = kClock.size();
  if (rest.starts_with("_lo") || rest.starts_with("_hi")) {
    source = rest.starts_with("_lo") ? "cupel_lo" : "cupel_hi";
    length += 3;
  }
  changed.replace(at, length, source);
  return fmt::format(
      "{{ .reg .b64 cupel_now, cupel_shift; .reg .b32 cupel_lo, cupel_hi;\n"
      "mov.u64 cupel_now, {}; ld.global.u64 cupel_shift, [{}];\n"
      "add.s64 cupel_now, cupel_now, cupel_shift;\n"
      "mov.b64 {{cupel_lo, cupel_hi}}, cupel_now;\n{} }}\n",
      kClock, kSurroundingsVariable, changed);
}

/// The statement with a register instead of the multiprocessor's number.
std::string OnAnotherProcessor(std::string_view statement) {
  std::string changed(statement);
  changed.replace(changed.find(kProcessor), kProcessor.size(), "cupel_at");
  return fmt::format(
      "{{ .reg .b32 cupel_at, cupel_all, cupel_shift;\n"
      "mov.u32 cupel_at, {}; mov.u32 cupel_all, %nsmid; ld.global.u32 cupel_shift, [{}+8];\n"
      "add.u32 cupel_at, cupel_at, cupel_shift; rem.u32 cupel_at, cupel_at, cupel_all;\n{} }}\n",
      kProcessor, kSurroundingsVariable, changed);
}

}  // namespace

bool ReadsSurroundings(std::string_view ptx) { return FindRead(ptx, 0) != std::string_view::npos; }

std::string WithOtherSurroundings(const std::string& ptx) {
  std::string out;
  size_t done = 0;
  const size_t head = ptx.find(".address_size");
  if (head != std::string::npos) {
    done = std::min(ptx.find('\n', head), ptx.size());
    out = ptx.substr(0, done);
    out += fmt::format("\n.global .align 8 .b8 {}[{}];\n", kSurroundingsVariable,
                       sizeof(Surroundings));
  }
  for (size_t at = FindRead(ptx, done); at != std::string::npos; at = FindRead(ptx, done)) {
    const size_t end = ptx.find(';', at);
    if (end == std::string::npos) break;
    const size_t begin = std::max(done, BeginOfStatement(ptx, at));
    const std::string_view statement = std::string_view{ptx}.substr(begin, end + 1 - begin);
    out += std::string_view{ptx}.substr(done, begin - done);
    out += ptx.compare(at, kClock.size(), kClock) == 0 ? WithOtherDate(statement)
                                                       : OnAnotherProcessor(statement);
    done = end + 1;
  }
  return out + ptx.substr(done);
}

Surroundings DrawSurroundings(uint64_t seed) {
  Random random = Random(seed).Fork("date");
  const uint64_t drawn = random.Below(90 * kNanosecondsOfAYear);
  return {static_cast<int64_t>(drawn) - static_cast<int64_t>(30 * kNanosecondsOfAYear),
          random.Below(kMostProcessors)};
}

}  // namespace cupel::gpu
