// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace cupel::cli {
namespace {

constexpr size_t kMostShown = 20;

/// Makes text from a possibly hostile record safe to show on a terminal.
std::string Plain(std::string text, size_t most = 160) {
  if (text.size() > most) text = text.substr(0, most) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  return text;
}

/// Shortens hashes to their first digits.
std::string Short(const std::string& text) {
  return text.empty() ? "unknown" : Plain(IsSha256Hex(text) ? text.substr(0, 12) : text, 60);
}

std::string Line(const app::RecordCheck& check) {
  if (check.IsSame()) {
    return fmt::format("  {:9} same       {}\n", check.name, Short(check.now));
  }
  return fmt::format("  {:9} {}  {} in the record, {} now\n", check.name,
                     check.decides ? "DIFFERS  " : "changed  ", Short(check.then),
                     Short(check.now));
}

/// The first of `differences`, one per line.
std::string Listed(const std::vector<judge::Difference>& differences) {
  std::string out;
  const size_t shown = std::min(kMostShown, differences.size());
  for (size_t i = 0; i < shown; ++i) {
    out += fmt::format("    {}: {} in the record, {} now\n", Plain(differences[i].where),
                       Plain(differences[i].then, 60), Plain(differences[i].now, 60));
  }
  if (shown < differences.size()) {
    out += fmt::format("    … and {} more\n", differences.size() - shown);
  }
  return out;
}

/// What was compared.
const char* MeasureOf(const app::Verification& result) {
  if (result.by_other_version) return "decision, reason codes and the settings' statuses";
  return result.exactly ? "all numbers except times" : "decision, reason codes and bounds";
}

const char* Headline(const app::Verification& result) {
  if (result.Holds()) return result.by_other_version ? "VERDICT VERIFIED" : "VERIFIED";
  return result.IsNotRepeated() ? "NOT REPEATED" : "NOT VERIFIED";
}

}  // namespace

std::string VerificationText(const app::Verification& result) {
  std::string out = fmt::format("{}: {} (verdict: {}, kernel: {}, task: {})\n", Headline(result),
                                Plain(result.record), Plain(result.verdict), Plain(result.kernel),
                                Plain(result.task));
  for (const app::RecordCheck& check : result.checks) out += Line(check);
  if (!result.why_not_repeated.empty() && result.differences.empty()) {
    return out + fmt::format("  not repeated: {}\n", result.why_not_repeated);
  }
  if (result.repeated.empty()) {
    return out + "  not repeated: the record is about other files\n";
  }
  if (!result.differences.empty()) {
    return out +
           fmt::format("  repeated  DIFFERS    {}: {} disagree\n", result.repeated,
                       MeasureOf(result)) +
           Listed(result.differences);
  }
  out += fmt::format("  repeated  same       {}: {} agree\n", result.repeated, MeasureOf(result));
  if (result.changes.empty()) return out;
  return out + "  not confirmed, since the record names other tools (they may explain it):\n" +
         Listed(result.changes);
}

std::string FailedText(const std::string& record, const Error& error) {
  std::string out = fmt::format("NOT READ: {}: {}\n", Plain(record), Plain(error.message, 2000));
  if (!error.remedy.empty()) out += fmt::format("  {}\n", Plain(error.remedy, 2000));
  return out;
}

std::string SummaryText(const app::Verifications& all) {
  std::string out = fmt::format("{} of {} records verified", all.verified(), all.all());
  for (const auto& [count, what] :
       {std::pair(all.contradicted(), "not verified"),
        std::pair(all.not_repeated(), "not repeated"), std::pair(all.failed(), "not read")}) {
    if (count > 0) out += fmt::format(", {} {}", count, what);
  }
  return out + "\n";
}

}  // namespace cupel::cli
