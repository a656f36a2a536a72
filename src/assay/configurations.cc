// SPDX-License-Identifier: Apache-2.0
#include "assay/configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "assay/loaded_images.h"
#include "assay/open_recorder.h"
#include "assay/setting_judge.h"
#include "base/random.h"
#include "judge/verdict.h"

namespace cupel::assay {
namespace {

constexpr int kMostConfigurations = 32;

bool DoesNotFit(const records::SettingReport& report) {
  return !report.problems.empty() && report.problems.front().code == "no_configuration";
}

/// The reasons of a verdict of this setting alone, with the configuration.
std::vector<records::Reason> ReasonsOf(records::SettingReport report, int number, int count,
                                       const std::vector<std::string>& notes) {
  records::Verdict alone;
  alone.settings.push_back(std::move(report));
  alone = judge::Decide(std::move(alone));
  const auto note = std::find_if(notes.begin(), notes.end(), [&](const std::string& text) {
    return text.find("configurations of") != std::string::npos;
  });
  for (records::Reason& reason : alone.reasons) {
    reason.message = fmt::format("with configuration {} of {} of the autotuner: {}", number, count,
                                 reason.message);
    if (note == notes.end()) continue;
    if (!reason.further.empty()) reason.further += "; ";
    reason.further += *note;
  }
  return std::move(alone.reasons);
}

}  // namespace

Result<TriedConfigurations> TryConfigurations(const Candidate& program, const Question& question,
                                              const Parts& parts, int count, uint64_t seed) {
  TriedConfigurations tried;
  Question once = question;
  once.trials = 1;
  once.shadows = once.integers = false;
  once.distributions.clear();
  once.given.clear();
  const task::Setting* setting = Chosen(question).front();
  const uint64_t addresses = Random(seed).Fork("addresses")();
  const int most = std::min(count, kMostConfigurations);
  LoadedImages loaded(*parts.engine);
  int right = 1, unfit = 0;
  for (int i = 1; i < most; ++i) {
    parts.Show({fmt::format("configuration {} of {}", i + 1, most), i, most, "configurations"});
    Candidate variant = program;
    std::get<PythonProgram>(variant.built).configuration = i;
    const auto open = [&] { return OpenRecorder(variant, once, parts, addresses); };
    TRY_ASSIGN(auto recorder, open());
    std::unique_ptr<record::CallRecorder> spare;
    std::set<std::string> launched, operators;
    plan::OwnWork own_work;
    bool may_scramble = false;
    SettingContext context;
    context.question = &once;
    context.setting = setting;
    context.oracle = parts.oracle;
    context.recorder = recorder.get();
    context.spare_recorder = [&]() -> Result<record::CallRecorder*> {
      if (!spare) {
        TRY_ASSIGN(spare, open());
      }
      return spare.get();
    };
    context.loaded = &loaded;
    context.may_scramble = &may_scramble;
    context.launched = &launched;
    context.own_work = &own_work;
    context.operators = &operators;
    context.seed = seed;
    context.stop = parts.stop;
    context.begin_trial = [](const std::string&) {};
    TRY_ASSIGN(SettingResult result, JudgeSetting(context));
    if (DoesNotFit(result.report)) {
      ++unfit;
    } else if (result.report.passed()) {
      ++right;
    } else {
      for (auto& reason : ReasonsOf(std::move(result.report), i + 1, count, result.notes)) {
        tried.reasons.push_back(std::move(reason));
      }
    }
  }
  tried.note = fmt::format("{} of the autotuner's {} configurations are right in a trial at {}",
                           right, count, setting->id);
  if (unfit > 0) tried.note += fmt::format("; {} do not fit on this device", unfit);
  if (most < count) tried.note += fmt::format("; {} were not tried", count - most);
  return tried;
}

}  // namespace cupel::assay
