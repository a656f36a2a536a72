// SPDX-License-Identifier: Apache-2.0
#include "report/run/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "term/table.h"
#include "term/text.h"

namespace cupel::report {
namespace {

constexpr int kTextWidth = 100;

std::string CountsText(const Run& run) {
  const archive::Counts& counts = run.counts;
  std::string text =
      fmt::format("{} {}: {} candidates, {} accepted, {} rejected, {} unsupported",
                  Printable(run.info.task), Printable(run.info.direction), counts.total(),
                  counts.accepted, counts.rejected, counts.unsupported);
  const std::pair<int64_t, const char*> others[] = {{counts.error, "in error"},
                                                    {counts.dropped, "dropped before the judge"},
                                                    {counts.queued + counts.evaluating, "waiting"}};
  for (const auto& [count, what] : others) {
    if (count > 0) text += fmt::format(", {} {}", count, what);
  }
  return text + "\n";
}

/// Why the starting kernel was not accepted.
std::string StartText(const RunCandidate& start) {
  if (start.outcome == "waiting") return "The starting kernel has not been judged yet.\n";
  std::string text =
      start.outcome == "dropped"
          ? fmt::format("The starting kernel failed at {}:\n", Printable(start.fell_at))
          : fmt::format("The starting kernel is {}:\n", Printable(start.outcome));
  for (const RunReason& reason : start.reasons) {
    text += fmt::format("  {}: {}{}{}\n", Printable(reason.code), Printable(reason.message),
                        reason.where.empty() ? "" : "   at ", Printable(reason.where));
  }
  return text;
}

std::string LineageText(const Run& run) {
  std::string text = fmt::format("Lineage ({}):\n", run.kind.of_one_call);
  for (const int64_t id : run.lineage) {
    const RunCandidate* step = run.Find(id);
    if (step == nullptr) continue;
    const std::string value = step->objective
                                  ? fmt::format("{:>10.3f}{}", *step->objective, run.kind.unit)
                                  : fmt::format("{:>10}{}", "–", run.kind.unit);
    const std::string& what = step->description.empty() ? step->name : step->description;
    text += fmt::format("  {:>4}  {}  {}\n", id, value, Fit(Printable(what), kTextWidth));
  }
  return text;
}

std::string GainText(const Run& run) {
  const double start = run.Start().value_or(0);
  const double best = run.Find(*run.best)->objective.value_or(0);
  const double gain = run.Gain().value_or(1);
  if (run.lineage.size() == 1) {
    return fmt::format("No gain: no variant is {} better than the start.\n",
                       run.kind.estimate() ? "estimated to be" : "measured to be");
  }
  if (!run.kind.estimate()) {
    return fmt::format("Gained: {:.2f}x, measured ({} -> {}).\n", gain,
                       ObjectiveText(run.kind.name, start), ObjectiveText(run.kind.name, best));
  }
  return fmt::format(
      "Gained: {:.2f}x by the emulator's estimate ({:.3f} -> {:.3f} us); measure it on a GPU "
      "to confirm it.\n",
      gain, start, best);
}

/// "PyTorch: eager 12.1 us, compiled 9.8 us; moving the data once takes 4.2 us."
std::string ReferencesText(const Run& run) {
  std::string torch;
  for (const auto& [key, name] :
       {std::pair("eager_us", "eager"), std::pair("compile_us", "compiled")}) {
    const auto found = run.references.find(key);
    if (found == run.references.end()) continue;
    torch += fmt::format("{}{} {:.3f} us", torch.empty() ? "PyTorch: " : ", ", name, found->second);
  }
  std::string named;
  for (const auto& [name, us] : run.named_us) {
    named += fmt::format("{}{} {:.3f} us", named.empty() ? "" : ", ", Printable(name), us);
  }
  if (!named.empty()) torch += (torch.empty() ? "Baselines: " : "; baselines: ") + named;
  const auto floor = run.references.find("floor_us");
  if (floor != run.references.end()) {
    torch += fmt::format("{}oving the data once takes {:.3f} us", torch.empty() ? "M" : "; m",
                         floor->second);
  }
  return torch.empty() ? "" : torch + ".\n";
}

/// The stages at which candidates failed, with reasons.
std::string StagesText(const Run& run) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const RunCandidate& candidate : run.candidates) {
    if (candidate.fell_at.empty()) continue;
    const std::string code = candidate.reasons.empty() ? "" : candidate.reasons.front().code;
    ++counts[{candidate.fell_at, code}];
  }
  term::Table table({{"stage", term::Align::kLeft},
                     {"in", term::Align::kRight},
                     {"passed", term::Align::kRight},
                     {"failed", term::Align::kRight},
                     {"time", term::Align::kRight},
                     {"reasons", term::Align::kLeft}});
  for (const RunCascade& row : run.cascade) {
    std::vector<std::pair<int64_t, std::string>> reasons;
    for (const auto& [key, count] : counts) {
      if (key.first == row.stage) reasons.emplace_back(-count, key.second);
    }
    std::sort(reasons.begin(), reasons.end());
    std::string text;
    for (const auto& [count, code] : reasons) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -count, code);
    }
    table.Add({row.stage, std::to_string(row.in), std::to_string(row.passed),
               std::to_string(row.fell()), term::Duration(row.seconds), text});
  }
  return table.empty() ? "" : "Candidates by stage:\n" + table.Render(kTextWidth, "  ");
}

std::string QuestionsText(const Run& run) {
  if (run.questions.empty()) return "";
  term::Table table({{"role", term::Align::kLeft},
                     {"model", term::Align::kLeft},
                     {"asked", term::Align::kRight},
                     {"answered", term::Align::kRight},
                     {"tokens in", term::Align::kRight},
                     {"out", term::Align::kRight},
                     {"cost", term::Align::kRight},
                     {"time", term::Align::kRight},
                     {"candidates", term::Align::kRight},
                     {"accepted", term::Align::kRight}});
  for (const RunQuestions& row : run.questions) {
    const std::string about = row.tokens_are_estimates ? "~" : "";
    table.Add({row.role, row.model, std::to_string(row.asked), std::to_string(row.answered),
               about + std::to_string(row.input_tokens), about + std::to_string(row.output_tokens),
               Dollars(row.usd), term::Duration(row.seconds), std::to_string(row.candidates),
               std::to_string(row.accepted)});
  }
  const RunSpent& spent = run.spent;
  std::string total =
      fmt::format("  total: {} questions, {}{} tokens in, {}{} out; cost {}\n", spent.questions,
                  spent.tokens_are_estimates ? "~" : "", spent.input_tokens,
                  spent.tokens_are_estimates ? "~" : "", spent.output_tokens, Dollars(spent.usd));
  if (spent.tokens_are_estimates) {
    total += "  ~ a model does not count its tokens: a quarter of the bytes\n";
  }
  return "Questions to models:\n" + table.Render(kTextWidth + 20, "  ") + total;
}

/// The time by part. Parts overlap: models answer while kernels compile and run.
std::string TimeText(const Run& run) {
  std::string parts;
  const auto add = [&parts](const std::string& name, double seconds) {
    if (seconds < 0.05) return;
    parts +=
        fmt::format("{}{} {}", parts.empty() ? "" : ", ", Printable(name), term::Duration(seconds));
  };
  double models = 0;
  for (const RunQuestions& row : run.questions) models += row.seconds;
  add("models", models);
  for (const RunCascade& row : run.cascade) add(row.stage, row.seconds);
  for (const archive::Cost& cost : run.other_costs) add(cost.kind, cost.seconds);
  std::string text = "Time: " + term::Duration(run.spent.seconds);
  if (!parts.empty()) text += "; by part, which may overlap: " + parts;
  return text + "\n";
}

}  // namespace

std::string Dollars(double usd) {
  if (!(usd > 0)) return "not counted";
  return usd < 0.1 ? fmt::format("${:.2g}", usd) : fmt::format("${:.2f}", usd);
}

std::string RunText(const Run& run, const std::string& folder, const std::string& best_file) {
  std::string text = CountsText(run);
  if (run.candidates.empty()) return text;
  text += StagesText(run) + QuestionsText(run) + TimeText(run);
  const bool unfinished = run.counts.queued + run.counts.evaluating > 0;
  if (run.best && run.Find(*run.best) != nullptr) {
    text += LineageText(run);
    if (!unfinished) {
      text += fmt::format("Best kernel: {}/{}\n", folder, best_file) + GainText(run) +
              ReferencesText(run);
    }
  } else {
    text += StartText(run.candidates.front());
  }
  if (unfinished) {
    text += fmt::format("Not finished: resume with cupel optimize --resume {}\n", folder);
  }
  return text;
}

}  // namespace cupel::report
