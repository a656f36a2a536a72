// Tested by the end-to-end tests.
// SPDX-License-Identifier: Apache-2.0
#include "assay/cases.h"

#include <utility>

namespace cupel::assay {
namespace {

/// Empty for the setting itself.
std::string PlaceOf(const SettingContext& context, const task::Setting& setting) {
  return &setting == context.setting ? "" : setting.Describe();
}

/// A stream for a distribution that the earlier verdict did not use.
class EmptyStream final : public oracle::Oracle::Stream {
 public:
  Result<std::optional<oracle::CaseOutcome>> Next() override {
    return std::optional<oracle::CaseOutcome>(
        oracle::SettingFailure{"the record lists no such case", true});
  }
};

}  // namespace

Result<std::unique_ptr<oracle::Oracle::Stream>> OpenCases(const SettingContext& context,
                                                          const task::Setting& setting,
                                                          task::Distribution distribution,
                                                          int count) {
  const Question& question = *context.question;
  const auto found = question.given.find(context.setting->id);
  // If the reference failed at this setting, the record lists no case: it must fail again.
  const bool has_cases = found != question.given.end() && !found->second.empty();
  if (question.given.empty() || (!has_cases && distribution == task::Distribution::kUsual)) {
    return context.oracle->Open(*question.task, question.direction, setting, count, question.seed,
                                question.fresh_cases, distribution);
  }
  std::vector<uint64_t> seeds;
  if (has_cases) {
    for (const records::UsedCase& used : found->second) {
      if (used.kind == Name(distribution) && used.at == PlaceOf(context, setting) &&
          seeds.size() < static_cast<size_t>(count)) {
        seeds.push_back(used.seed);
      }
    }
  }
  using Stream = std::unique_ptr<oracle::Oracle::Stream>;
  if (seeds.empty() && distribution != task::Distribution::kUsual) {
    return Stream(std::make_unique<EmptyStream>());
  }
  return context.oracle->OpenSeeds(*question.task, question.direction, setting, seeds,
                                   distribution);
}

records::UsedCase UsedCaseOf(const SettingContext& context, const task::Setting& setting,
                             task::Distribution distribution, const task::Case& used) {
  return {std::string(Name(distribution)), used.seed, PlaceOf(context, setting)};
}

}  // namespace cupel::assay
