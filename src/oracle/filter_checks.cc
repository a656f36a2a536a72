// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "oracle/filter_own_checks.h"

namespace cupel::oracle {
namespace {

using Deviation = std::optional<double> OutputMeasures::*;

double Largest(const OutputMeasures& o) {
  return std::max(std::fabs(o.lowest), std::fabs(o.highest));
}

/// The deviation as a share of the output's scale. 0 if the output is all zeros.
double Share(const OutputMeasures& o, double deviation) {
  return o.scale > 0 ? deviation / o.scale : 0;
}

std::string Percent(double share) {
  return share < 0.1 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

/// The published thresholds apply to every element, so an output with a non-finite element never
/// counts as small.
bool IsFinite(const OutputMeasures& o) { return o.finite >= 1; }

/// Why an output's range is too narrow, or "" if it is wide enough.
std::string NarrowRange(const OutputMeasures& o) {
  if (o.finite <= 0) return "no element is finite: draw inputs that give a finite result";
  if (Largest(o) == 0) {
    return "every element is zero at every seed, so a kernel that writes zeros passes: change the "
           "reference or its inputs";
  }
  if (o.dtype == "float32" && Largest(o) < FLT_MIN) {
    return fmt::format(
        "the largest element is {:.2g}, which is zero or a denormal in float32, so a kernel that "
        "writes zeros passes: draw inputs on which the result does not underflow",
        Largest(o));
  }
  if ((o.highest - o.lowest) / 2 <= kRelativeThreshold * Largest(o)) {
    return fmt::format(
        "every element is within 1 % of {:.4g}, so a kernel that writes this number is nearly "
        "correct: spread the results with other inputs or a reduction over fewer elements",
        (o.highest + o.lowest) / 2);
  }
  return "";
}

std::string WhyPublishedAlone(const Outputs& outputs) {
  double scale = outputs[0].scale;
  for (const OutputMeasures& o : outputs) scale = std::min(scale, o.scale);
  return fmt::format(
      "the published threshold of {} is absolute; relative to the output's scale of {:.2g} the "
      "variation is large enough, and the judge's tolerance follows that scale",
      kPublishedThreshold, scale);
}

QualityCheck Range(const Outputs& outputs) {
  QualityCheck check = Check("range");
  check.published = false;
  for (const OutputMeasures& o : outputs) {
    Measured(check, fmt::format("{}{:.3g} to {:.3g}", Of(outputs, o), o.lowest, o.highest));
    if (!IsFinite(o)) Measured(check, fmt::format("{} not finite", Percent(1 - o.finite)));
    if (IsFinite(o) && o.lowest > -kPublishedThreshold && o.highest < kPublishedThreshold) {
      check.published = true;
    }
    const std::string narrow = NarrowRange(o);
    if (!narrow.empty()) Flag(check, Of(outputs, o) + narrow);
  }
  return check;
}

QualityCheck DeviationOverSeeds(const Outputs& outputs) {
  QualityCheck check = Check("deviation");
  check.published = false;
  for (const OutputMeasures& o : outputs) {
    const double std = o.seeds_std.value_or(0);
    const double share = Share(o, std);
    Measured(check, fmt::format("{}{:.2g}, {} of the scale", Of(outputs, o), std, Percent(share)));
    if (IsFinite(o) && std < kPublishedThreshold) check.published = true;
    if (share < kRelativeThreshold) {
      Flag(check,
           fmt::format(
               "{}no element varies by more than {} of the scale from seed to seed, so a cached "
               "answer to other inputs is nearly correct: draw inputs that change the result more",
               Of(outputs, o), Percent(share)));
    }
  }
  return check;
}

/// The axes along which an output varies little, such as "axis 0 (128 elements)".
std::vector<std::string> FlatAxes(const OutputMeasures& o) {
  std::vector<std::string> flat;
  for (const OutputMeasures::Axis& axis : o.axes) {
    if (Share(o, axis.std) >= kRelativeThreshold) continue;
    flat.push_back(fmt::format("axis {} ({} elements)", axis.axis, axis.size));
  }
  return flat;
}

QualityCheck DeviationAlongAxes(const Outputs& outputs, const QualityCheck& over_seeds) {
  QualityCheck check = Check("axes");
  check.published = over_seeds.published;  // the published check also treats seeds as an axis
  bool any = false;
  for (const OutputMeasures& o : outputs) {
    for (const OutputMeasures::Axis& axis : o.axes) {
      any = true;
      const std::string share = Percent(Share(o, axis.std));
      Measured(check, fmt::format("{}axis {}: {}", Of(outputs, o), axis.axis, share));
      if (IsFinite(o) && axis.std < kPublishedThreshold) check.published = true;
    }
    const std::vector<std::string> flat = FlatAxes(o);
    if (flat.empty()) continue;
    Flag(check,
         fmt::format("{}along {} the elements differ by less than 1 % of the scale, so a kernel "
                     "can compute one of them and repeat it: let the inputs differ there, or "
                     "drop the axis",
                     Of(outputs, o), fmt::join(flat, " and ")));
  }
  if (!any) {
    check.status = CheckStatus::kNotApplicable;
    check.reason = "no output has an axis longer than 1";
  }
  return check;
}

/// Judges the effect of changing only the inputs or only the weights. The check passes if at least
/// one output changes.
QualityCheck Impact(const char* name, const Outputs& outputs, Deviation deviation,
                    const std::string& reason) {
  QualityCheck check = Check(name);
  bool any = false, any_published = false;
  for (const OutputMeasures& o : outputs) {
    const double std = (o.*deviation).value_or(0);
    const double share = Share(o, std);
    Measured(check, fmt::format("{}{:.2g}, {} of the scale", Of(outputs, o), std, Percent(share)));
    any = any || share >= kRelativeThreshold;
    any_published = any_published || !IsFinite(o) || std >= kPublishedThreshold;
  }
  check.published = !any_published;
  if (!any) Flag(check, reason);
  return check;
}

QualityCheck ImpactOfWeights(const TaskMeasures& measures) {
  if (measures.weights_vary) {
    QualityCheck check = Impact(
        "weights", measures.outputs, &OutputMeasures::weights_std,
        "with the same inputs, other weights change no output by 1 % of its scale, so a kernel "
        "that ignores the weights is nearly correct: initialize them so that they matter");
    check.published.reset();  // the published code has this check commented out
    return check;
  }
  QualityCheck check = Check("weights");
  check.status = CheckStatus::kNotApplicable;
  check.reason = measures.has_weights
                     ? "the weights are the same at every seed; the filter changed them one by one"
                     : "the reference has no weights";
  return check;
}

}  // namespace

const char* Name(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kFlagged:
      return "flagged";
    case CheckStatus::kNotApplicable:
      return "not applicable";
    case CheckStatus::kNotAsked:
      return "not asked";
    case CheckStatus::kUnfinished:
      return "unfinished";
  }
  return "?";
}

std::vector<QualityCheck> JudgeQuality(const TaskMeasures& measures,
                                       const std::optional<ModelOpinion>& opinion) {
  const Outputs& outputs = measures.outputs;
  std::vector<QualityCheck> checks;
  checks.push_back(Range(outputs));
  checks.push_back(DeviationOverSeeds(outputs));
  checks.push_back(DeviationAlongAxes(outputs, checks.back()));
  checks.push_back(ImpactOfWeights(measures));
  checks.push_back(
      Impact("inputs", outputs, &OutputMeasures::inputs_std,
             "with the same weights, other inputs change no output by 1 % of its scale, so a "
             "kernel that ignores the inputs is nearly correct: change the reference or draw other "
             "inputs"));
  checks.push_back(OpinionCheck("model_redundancy", opinion, &ModelOpinion::redundant));
  checks.push_back(OpinionCheck("model_inefficiency", opinion, &ModelOpinion::inefficient));
  checks.push_back(ConstantCheck(outputs));
  checks.push_back(CopyCheck(outputs));
  checks.push_back(UnusedCheck(measures));
  checks.push_back(RedundancyCheck(measures));
  for (QualityCheck& check : checks) {
    if (check.status == CheckStatus::kOk && check.published.value_or(false)) {
      check.reason = WhyPublishedAlone(outputs);
    }
  }
  return checks;
}

QualityCheck ReferenceFails(const std::string& message) {
  QualityCheck check = Check("reference");
  Flag(check, message);
  return check;
}

bool IsFlagged(const std::vector<QualityCheck>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const QualityCheck& check) {
    return check.status == CheckStatus::kFlagged;
  });
}

bool IsFlaggedAsPublished(const std::vector<QualityCheck>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const QualityCheck& check) { return check.published.value_or(false); });
}

}  // namespace cupel::oracle
