// SPDX-License-Identifier: Apache-2.0
#include "gpu/date.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace cupel::gpu {
namespace {

constexpr std::string_view kClock = "%globaltimer";
constexpr uint64_t kNanosecondsOfAYear = 31'557'600'000'000'000;

/// Where the statement that holds `at` begins: behind the last one, and behind lines that are none.
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

/// The statement with a register in place of the clock.
std::string Shifted(std::string_view statement) {
  std::string changed(statement);
  const size_t at = changed.find(kClock);
  std::string_view rest = std::string_view{changed}.substr(at + kClock.size());
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
      kClock, kDateVariable, changed);
}

}  // namespace

bool ReadsDate(std::string_view ptx) { return ptx.find(kClock) != std::string_view::npos; }

std::string WithShiftedDate(const std::string& ptx) {
  std::string out;
  size_t done = 0;
  const size_t head = ptx.find(".address_size");
  if (head != std::string::npos) {
    done = std::min(ptx.find('\n', head), ptx.size());
    out = ptx.substr(0, done);
    out += fmt::format("\n.global .align 8 .u64 {};\n", kDateVariable);
  }
  for (size_t at = ptx.find(kClock, done); at != std::string::npos; at = ptx.find(kClock, done)) {
    const size_t end = ptx.find(';', at);
    if (end == std::string::npos) break;
    const size_t begin = std::max(done, BeginOfStatement(ptx, at));
    out += std::string_view{ptx}.substr(done, begin - done);
    out += Shifted(std::string_view{ptx}.substr(begin, end + 1 - begin));
    done = end + 1;
  }
  return out + ptx.substr(done);
}

int64_t DrawDateShift(uint64_t seed) {
  Random random = Random(seed).Fork("date");
  const uint64_t drawn = random.Below(90 * kNanosecondsOfAYear);
  return static_cast<int64_t>(drawn) - static_cast<int64_t>(30 * kNanosecondsOfAYear);
}

}  // namespace cupel::gpu
