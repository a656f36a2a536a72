// Makes a decision with reasons from setting reports. Causes (the engine's findings) come before
// effects (wrong numbers), each once.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/name_some.h"
#include "judge/controls.h"
#include "judge/rounding_direction.h"
#include "judge/verdict.h"

namespace cupel::judge {
namespace {

constexpr size_t kMaxReasons = 20;
constexpr size_t kMaxNamed = 4;  // settings listed after "also in"
constexpr size_t kMaxWhy = 300;

void AddFurther(records::Reason& reason, const std::string& text) {
  if (text.empty()) return;
  if (!reason.further.empty()) reason.further += "; ";
  reason.further += text;
}

/// Merges equal reasons, in the order in which they first appeared.
class Collector {
 public:
  /// If `trials`, a repetition within one setting counts as another trial; else it is ignored.
  void Add(const std::string& key, records::Reason reason, const std::string& setting,
           bool trials = false) {
    auto [it, fresh] = at_.try_emplace(key, entries_.size());
    if (fresh) entries_.push_back({std::move(reason), setting, {}, {}, 0});
    Entry& entry = entries_[it->second];
    if (!fresh && trials && setting == entry.first_setting) ++entry.more_here;
    if (setting != entry.first_setting && entry.seen.insert(setting).second) {
      entry.others.push_back(setting);
    }
  }

  void MoveTo(std::vector<records::Reason>& reasons) {
    for (Entry& entry : entries_) {
      if (const std::string also = Also(entry); !also.empty()) {
        AddFurther(entry.reason, "also in " + also);
      }
      reasons.push_back(std::move(entry.reason));
    }
  }

 private:
  struct Entry {
    records::Reason reason;
    std::string first_setting;
    std::vector<std::string> others;
    std::set<std::string> seen;
    int more_here = 0;
  };

  static std::string Also(const Entry& entry) {
    std::vector<std::string> parts;
    if (entry.more_here > 0) {
      parts.push_back(fmt::format("{} more trial{} of {}", entry.more_here,
                                  entry.more_here == 1 ? "" : "s", entry.first_setting));
    }
    for (size_t i = 0; i < std::min(kMaxNamed, entry.others.size()); ++i) {
      parts.push_back(entry.others[i]);
    }
    if (entry.others.size() > kMaxNamed) {
      parts.push_back(fmt::format("{} more settings", entry.others.size() - kMaxNamed));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  std::map<std::string, size_t> at_;
  std::vector<Entry> entries_;
};

records::ReasonPlace PlaceOf(const records::Finding& finding,
                             const records::SettingReport& setting) {
  records::ReasonPlace place;
  place.setting = setting.id;
  place.file = std::filesystem::path(finding.file).filename().string();
  if (!place.file.empty()) place.line = finding.line;
  return place;
}

std::string LineOf(const records::Finding& finding, const records::ReasonPlace& place) {
  if (place.file.empty()) return finding.kernel;
  return place.line > 0 ? fmt::format("{}:{}", place.file, place.line) : place.file;
}

std::string Text(const records::Finding& finding) {
  std::string text = finding.message.empty() ? finding.code : finding.message;
  if (text.ends_with('.')) text.pop_back();  // more follows on the line
  if (!finding.where.empty()) text += " (" + finding.where + ")";
  if (finding.line > 0 && finding.severity == records::Severity::kError) {
    const plan::Dim3 &b = finding.block, &t = finding.thread;
    text += fmt::format("; block ({}, {}, {}), thread ({}, {}, {})", b.x, b.y, b.z, t.x, t.y, t.z);
  }
  if (finding.count > 1) text += fmt::format(", {} times", finding.count);
  return text;
}

struct Collected {
  Collector problems, findings, comparisons;
  std::set<std::string> warned;  // code, kernel and place of each warning, over all settings
  bool broken_case = false;
};

/// True for a warning that explains wrong results: the kernel used undefined values. Without wrong
/// results it is only a remark, because the kernel may discard such values.
bool IsCause(const records::Finding& finding) {
  static constexpr std::string_view kCauses[] = {
      "uninitialized_shared", "uninitialized_global", "uninitialized_register",
      "uninitialized_local",  "uninitialized_tensor", "missing_copy_wait",
      "missing_tensor_fence", "store_conflict",       "missing_syncwarp",
      "shared_race",          "global_race"};
  // A mask that omits executing lanes still gives them their values.
  if (finding.code == "shuffle_inactive_lane") {
    return finding.undefined;
  }
  return std::find(std::begin(kCauses), std::end(kCauses), finding.code) != std::end(kCauses);
}

bool HasWrongOutputs(const records::SettingReport& setting) {
  return std::any_of(setting.trials.begin(), setting.trials.end(),
                     [](const records::TrialReport& trial) {
                       return std::any_of(trial.outputs.begin(), trial.outputs.end(),
                                          [](const records::Comparison& c) { return !c.ok; });
                     });
}

/// The task does not list derived sizes, so the reason must say where the size came from.
std::string SizeText(const records::SettingReport& setting) {
  if (setting.derived.empty()) return "";
  return fmt::format("at sizes derived from the task's first setting ({})", setting.derived);
}

bool CollectTrials(const records::SettingReport& setting, Collected& all) {
  bool failed = false;
  for (size_t t = 0; t < setting.trials.size(); ++t) {
    const records::TrialReport& trial = setting.trials[t];
    bool explained = false;
    for (size_t o = 0; o < trial.outputs.size(); ++o) {
      const records::Comparison& c = trial.outputs[o];
      if (c.ok) continue;
      explained = failed = true;
      all.broken_case |= c.code == "broken_case";
      all.comparisons.Add(fmt::format("{}/{}/{}", c.code, c.pattern, o),
                          {c.code,
                           c.message,
                           PlaceText(setting, t, o),
                           {setting.id, t, o, "", 0},
                           SizeText(setting)},
                          setting.id, true);
    }
    if (trial.ok || explained) continue;
    failed = true;
    // An error finding says more than this. Without one, the failure itself must be reported.
    const bool found = std::any_of(
        setting.findings.begin(), setting.findings.end(),
        [](const records::Finding& f) { return f.severity == records::Severity::kError; });
    if (!found && setting.problems.empty()) {
      all.problems.Add("trial_failed",
                       {"trial_failed",
                        "a trial did not complete",
                        fmt::format("{} trial {}", setting.id, t),
                        {setting.id, t, std::nullopt, "", 0},
                        ""},
                       setting.id, true);
    }
  }
  return failed;
}

/// True if the setting counts against the candidate.
bool CollectSetting(const records::SettingReport& setting, records::Verdict& verdict,
                    Collected& all) {
  bool failed = !setting.problems.empty();
  for (records::Reason problem : setting.problems) {
    const std::string key = problem.code + "/" + problem.message + "/" + problem.where;
    AddFurther(problem, SizeText(setting));
    if (problem.where.empty()) problem.where = setting.id;
    problem.at.setting = setting.id;
    all.problems.Add(key, std::move(problem), setting.id);
  }
  const bool wrong = HasWrongOutputs(setting);
  for (const records::Finding& finding : setting.findings) {
    const records::ReasonPlace place = PlaceOf(finding, setting);
    const std::string where = LineOf(finding, place);
    if (finding.severity == records::Severity::kWarning && !(wrong && IsCause(finding))) {
      if (all.warned.insert(fmt::format("{}/{}/{}", finding.code, finding.kernel, where)).second) {
        verdict.notes.push_back(
            fmt::format("{}: {}, first at {}", where, Text(finding), setting.id));
      }
      continue;
    }
    failed = true;
    all.findings.Add(fmt::format("{}/{}/{}", finding.code, finding.kernel, where),
                     {finding.code, Text(finding), where, place, SizeText(setting)}, setting.id);
  }
  return CollectTrials(setting, all) || failed;
}

std::string JoinIds(const std::vector<std::string>& ids) { return NameSome(ids, 8); }

struct Tally {
  int passed = 0, failed = 0, unsupported = 0;
  std::vector<std::string> no_reference, not_run, cannot_judge, refused;
  std::string why_no_reference;  // from the first of these settings
};

/// True if the setting says nothing about the candidate.
bool SetAside(const records::SettingReport& setting, records::Verdict& verdict, Tally& tally) {
  if (setting.status == records::SettingStatus::kNoReference) {
    if (tally.no_reference.empty()) tally.why_no_reference = setting.note;
    tally.no_reference.push_back(setting.id);
    return true;
  }
  if (setting.status == records::SettingStatus::kCannotJudge) {
    tally.cannot_judge.push_back(fmt::format("{} ({})", setting.id, PassingText(setting.controls)));
    return true;
  }
  if (setting.status == records::SettingStatus::kRefused && !setting.derived.empty()) {
    verdict.notes.push_back("limit: " + setting.note);
    tally.refused.push_back(setting.id);
    return true;
  }
  return setting.status == records::SettingStatus::kNotDeclared && !verdict.declared.empty();
}

Tally Judge(records::Verdict& verdict, Collected& all) {
  Tally tally;
  // A passed setting at a derived size does not replace the settings that the task lists.
  const bool any_listed =
      std::any_of(verdict.settings.begin(), verdict.settings.end(),
                  [](const records::SettingReport& setting) { return setting.derived.empty(); });
  for (records::SettingReport& setting : verdict.settings) {
    const bool against = CollectSetting(setting, verdict, all);
    if (!against && SetAside(setting, verdict, tally)) continue;
    if (against) {
      setting.status = records::SettingStatus::kFailed;
      ++(setting.unsupported ? tally.unsupported : tally.failed);
      continue;
    }
    // "passed" counts only if there are trials.
    if (setting.status == records::SettingStatus::kFailed && !setting.trials.empty()) {
      ++tally.failed;
      all.problems.Add("setting_failed", {"setting_failed", setting.note, setting.id}, setting.id);
    } else if (setting.status == records::SettingStatus::kPassed && !setting.trials.empty()) {
      tally.passed += setting.derived.empty() || !any_listed;
    } else {
      setting.status = records::SettingStatus::kNotRun;
      tally.not_run.push_back(setting.id);
    }
  }
  return tally;
}

/// Rejects results that are rounded in one direction, which no single trial shows.
void CollectRounding(records::Verdict& verdict, Collected& all, Tally& tally) {
  const auto problem = FindRoundingProblem(verdict.settings);
  if (!problem) return;
  for (const size_t i : problem->settings) {
    records::SettingReport& setting = verdict.settings[i];
    if (setting.status != records::SettingStatus::kPassed) continue;
    setting.status = records::SettingStatus::kFailed;
    --tally.passed;
    ++tally.failed;
    all.comparisons.Add("rounding",
                        {"wrong_result",
                         problem->message,
                         fmt::format("{} output {}", setting.id, problem->output),
                         {setting.id, std::nullopt, problem->output, "", 0},
                         SizeText(setting)},
                        setting.id);
  }
}

records::Decision Conclude(const Tally& tally, bool broken_case, bool reasons_given,
                           records::Verdict& verdict) {
  const records::Decision given = verdict.decision == records::Decision::kAccepted
                                      ? records::Decision::kRejected
                                      : verdict.decision;
  if (reasons_given && verdict.settings.empty()) return given;
  if (broken_case) return records::Decision::kError;
  const bool rejected_before = reasons_given && given == records::Decision::kRejected;
  if (tally.failed > 0 || rejected_before) return records::Decision::kRejected;
  if (tally.unsupported > 0) return records::Decision::kUnsupported;
  if (reasons_given) return given;
  if (tally.passed == 0) {
    std::vector<std::string> why;
    if (!tally.no_reference.empty()) {
      why.push_back(fmt::format(
          "the task's own reference fails at {}{}", JoinIds(tally.no_reference),
          tally.why_no_reference.empty() ? ""
                                         : " (" + tally.why_no_reference.substr(0, kMaxWhy) + ")"));
    }
    if (!tally.cannot_judge.empty()) {
      why.push_back("wrong answers pass at " + JoinIds(tally.cannot_judge));
    }
    if (!tally.refused.empty()) {
      why.push_back("the kernel was not run at the derived sizes of " + JoinIds(tally.refused));
    }
    verdict.reasons.push_back({tally.cannot_judge.empty() ? "nothing_judged" : "cannot_judge",
                               fmt::format("no setting could be judged{}{}",
                                           why.empty() ? "" : ": ", fmt::join(why, "; ")),
                               ""});
    return records::Decision::kError;
  }
  if (!tally.not_run.empty()) {
    verdict.reasons.push_back(
        {"not_judged", "these settings were not run: " + JoinIds(tally.not_run), ""});
    return records::Decision::kError;
  }
  return records::Decision::kAccepted;
}

/// Adds a note for each limit: what the kernel cannot do and the task does not require.
void NoteLimits(records::Verdict& verdict) {
  std::vector<std::pair<std::string, std::vector<std::string>>> limits;
  for (const records::SettingReport& setting : verdict.settings) {
    for (const records::Limit& limit : setting.other_inputs.limits) {
      auto known = std::find_if(limits.begin(), limits.end(),
                                [&](const auto& old) { return old.first == limit.message; });
      if (known == limits.end()) known = limits.insert(limits.end(), {limit.message, {}});
      known->second.push_back(setting.id);
    }
  }
  for (const auto& [message, settings] : limits) {
    verdict.notes.push_back(fmt::format("limit: {} ({})", message, JoinIds(settings)));
  }
}

/// If the kernel fails only at reduced sizes, says so: kernels are written for a task's own sizes.
void NoteReducedSizes(records::Verdict& verdict) {
  const records::SettingReport* first = nullptr;
  for (const records::SettingReport& setting : verdict.settings) {
    if (setting.status != records::SettingStatus::kFailed) continue;
    if (setting.reduced.empty()) return;
    if (first == nullptr) first = &setting;
  }
  if (first == nullptr) return;
  verdict.notes.insert(
      verdict.notes.begin(),
      fmt::format("the kernel failed at smaller sizes, which are used instead of the task's own "
                  "({}: {} instead of {}); use --full-size to try the task's own sizes",
                  first->id, first->description, first->reduced));
}

}  // namespace

std::string PlaceText(const records::SettingReport& setting, size_t trial, size_t output) {
  const records::TrialReport& report = setting.trials[trial];
  return fmt::format("{} trial {}{} output {}", setting.id, trial,
                     report.is_usual() ? "" : " (" + report.kind + ")", output);
}

records::Verdict Decide(records::Verdict verdict) {
  Collected all;
  const bool reasons_given = !verdict.reasons.empty();
  Tally tally = Judge(verdict, all);
  CollectRounding(verdict, all, tally);
  all.problems.MoveTo(verdict.reasons);
  all.findings.MoveTo(verdict.reasons);
  all.comparisons.MoveTo(verdict.reasons);
  verdict.decision = Conclude(tally, all.broken_case, reasons_given, verdict);
  if (verdict.reasons.size() > kMaxReasons) {
    verdict.notes.push_back(
        fmt::format("{} more reasons are not shown", verdict.reasons.size() - kMaxReasons));
    verdict.reasons.resize(kMaxReasons);
  }
  if (!tally.no_reference.empty()) {
    verdict.notes.push_back("not judged, because the task's own reference fails there: " +
                            JoinIds(tally.no_reference));
  }
  NoteLimits(verdict);
  if (verdict.decision == records::Decision::kRejected) NoteReducedSizes(verdict);
  if (!tally.cannot_judge.empty() && tally.passed > 0) {
    verdict.notes.push_back("not judged, because wrong answers pass there: " +
                            JoinIds(tally.cannot_judge));
  }
  if (!tally.not_run.empty() && tally.failed + tally.unsupported > 0) {
    verdict.notes.push_back("not run: " + JoinIds(tally.not_run));
  }
  return verdict;
}

int ExitStatus(records::Decision decision) {
  switch (decision) {
    case records::Decision::kAccepted:
      return 0;
    case records::Decision::kRejected:
      return 1;
    case records::Decision::kUnsupported:
      return 3;
    case records::Decision::kError:
      return 2;
  }
  return 2;
}

}  // namespace cupel::judge
