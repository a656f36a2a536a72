// SPDX-License-Identifier: Apache-2.0
#include "assay/refused_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "assay/declared.h"

namespace cupel::assay {
namespace {

constexpr int64_t kSteps[] = {2, 4, 8, 16, 32, 64, 128, 256};

/// The values of one keyword at some settings.
struct Values {
  std::set<int64_t> numbers;
  std::set<std::string> words;
  bool is_complete = true;  // every setting has one

  Values(const std::vector<const task::Setting*>& settings, const std::string& key) {
    for (const task::Setting* setting : settings) {
      const Json* value = ValueOf(*setting, key);
      if (value != nullptr && value->is_number_integer()) {
        numbers.insert(value->get<int64_t>());
      } else if (value != nullptr && value->is_string()) {
        words.insert(value->get<std::string>());
      } else {
        is_complete = false;
      }
    }
  }
};

template <typename T>
bool IsDisjoint(const std::set<T>& a, const std::set<T>& b) {
  return std::ranges::none_of(a, [&](const T& value) { return b.contains(value); });
}

std::string ConditionOf(const Values& right, const Values& refused) {
  if (!right.is_complete || !refused.is_complete) return "";
  if (right.numbers.empty() && refused.numbers.empty() && IsDisjoint(right.words, refused.words)) {
    return fmt::format("{}", fmt::join(right.words, ","));
  }
  if (right.numbers.empty() || refused.numbers.empty()) return "";
  for (const int64_t step : kSteps) {
    const auto is_multiple = [step](int64_t number) { return number % step == 0; };
    if (std::ranges::all_of(right.numbers, is_multiple) &&
        std::ranges::none_of(refused.numbers, is_multiple)) {
      return fmt::format("*{}", step);
    }
  }
  const int64_t first = *right.numbers.begin(), last = *right.numbers.rbegin();
  if (*refused.numbers.begin() > last) return fmt::format("1..{}", last);
  const auto is_within = [&](int64_t number) { return first <= number && number <= last; };
  if (std::ranges::none_of(refused.numbers, is_within)) return fmt::format("{}..{}", first, last);
  if (!IsDisjoint(right.numbers, refused.numbers)) return "";
  return fmt::format("{}", fmt::join(right.numbers, ","));
}

}  // namespace

std::string SupportedSizes(const std::vector<const task::Setting*>& right,
                           const std::vector<const task::Setting*>& refused) {
  if (right.empty() || refused.empty()) return "";
  std::set<std::string> keys;
  for (const Json* keywords : {&right.front()->inputs, &right.front()->init}) {
    for (const auto& [key, value] : keywords->items()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    const std::string condition = ConditionOf(Values(right, key), Values(refused, key));
    if (!condition.empty()) return fmt::format("{}={}", key, condition);
  }
  return "";
}

void NameRefusedSizes(records::Verdict& verdict,
                      const std::vector<const task::Setting*>& settings) {
  const bool only_refuses =
      verdict.decision == records::Decision::kRejected && !verdict.reasons.empty() &&
      std::ranges::all_of(verdict.reasons,
                          [](const auto& reason) { return reason.code == "host_exception"; });
  if (!only_refuses) return;
  std::vector<const task::Setting*> right, refused;
  for (const records::SettingReport& report : verdict.settings) {
    if (!report.derived.empty()) continue;
    const auto setting = std::ranges::find(settings, report.id, &task::Setting::id);
    if (setting == settings.end()) continue;
    if (report.passed()) right.push_back(*setting);
    if (!report.problems.empty()) refused.push_back(*setting);
  }
  if (right.empty() || refused.empty()) return;
  const std::string sizes = SupportedSizes(right, refused);
  const std::string line =
      sizes.empty() ? "a line of cupel:supports in its source, which names sizes"
                    : fmt::format("this line in its source: // cupel:supports {}", sizes);
  for (records::Reason& reason : verdict.reasons) {
    reason.code = "refused_size";
    reason.message = fmt::format(
        "the host code refuses a size of the task: {}. It is right at {} "
        "listed setting{}; to claim only those, it needs {}",
        reason.message, right.size(), right.size() == 1 ? "" : "s", line);
  }
}

}  // namespace cupel::assay
