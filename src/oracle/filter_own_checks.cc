// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter_own_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/name_some.h"

namespace cupel::oracle {
namespace {

constexpr size_t kMaxNamed = 8;  // names listed in one sentence
constexpr char kNotAskedText[] = "not asked: no model is configured";

std::string Part(const ArgumentMeasures& argument, const ArgumentMeasures::Part& part) {
  return fmt::format("{} from {} to {} along axis {}", argument.name, part.from, part.to,
                     part.axis);
}

std::string Place(const OperationMeasures& operation) {
  std::string text = operation.name;
  if (!operation.module.empty()) text += " of " + operation.module;
  if (!operation.file.empty()) text += fmt::format(" at {}:{}", operation.file, operation.line);
  return text;
}

const char* Effect(const OperationMeasures& operation) {
  switch (operation.how) {
    case OperationMeasures::How::kInput:
      return "can be left out";
    case OperationMeasures::How::kZeros:
      return "can be zero";
    case OperationMeasures::How::kMean:
      return "can be its own mean";
  }
  return "";
}

}  // namespace

QualityCheck Check(const char* name) {
  QualityCheck check;
  check.name = name;
  return check;
}

void Flag(QualityCheck& check, const std::string& reason) {
  check.status = CheckStatus::kFlagged;
  check.reason += (check.reason.empty() ? "" : "; ") + reason;
}

void Measured(QualityCheck& check, const std::string& text) {
  if (check.measured.size() > 120) return;  // the JSON has all outputs
  check.measured += (check.measured.empty() ? "" : "; ") + text;
}

std::string Of(const Outputs& outputs, const OutputMeasures& output) {
  return outputs.size() > 1 ? output.name + ": " : "";
}

QualityCheck OpinionCheck(const char* name, const std::optional<ModelOpinion>& opinion,
                          bool ModelOpinion::* member) {
  QualityCheck check = Check(name);
  if (!opinion) {
    check.status = CheckStatus::kNotAsked;
    check.reason = kNotAskedText;
  } else if ((*opinion).*member) {
    Flag(check, opinion->text);
  }
  return check;
}

QualityCheck ConstantCheck(const Outputs& outputs) {
  QualityCheck check = Check("constant");
  for (const OutputMeasures& o : outputs) {
    if (!o.constant) continue;
    Flag(check, fmt::format("{}the output is the same at every seed, within the judge's tolerance, "
                            "so a constant passes: change the reference or its inputs",
                            Of(outputs, o)));
  }
  return check;
}

QualityCheck CopyCheck(const Outputs& outputs) {
  QualityCheck check = Check("copy");
  for (const OutputMeasures& o : outputs) {
    if (o.equals.empty()) continue;
    Flag(check, fmt::format("{}the output equals {}, so a copy passes: change the reference or its "
                            "inputs",
                            Of(outputs, o), o.equals));
  }
  return check;
}

QualityCheck UnusedCheck(const TaskMeasures& measures) {
  QualityCheck check = Check("unused");
  std::vector<std::string> unused;
  size_t moved = 0;
  for (const ArgumentMeasures& argument : measures.arguments) {
    if (!argument.matters) continue;
    ++moved;
    if (!*argument.matters && !argument.written) unused.push_back(argument.name);
    for (const auto& part : argument.idle) unused.push_back(Part(argument, part));
  }
  check.measured = fmt::format("{} of {} tensors changed", moved, measures.arguments.size());
  if (!unused.empty()) {
    Flag(check,
         fmt::format("the output does not depend on {}, so a kernel need not read it: remove it "
                     "from the task, or make the output depend on it",
                     NameSome(unused, kMaxNamed)));
  } else if (!measures.unfinished.empty()) {
    check.status = CheckStatus::kUnfinished;
    check.reason = "the time ran out while " + measures.unfinished;
  }
  return check;
}

QualityCheck RedundancyCheck(const TaskMeasures& measures) {
  QualityCheck check = Check("operations");
  if (!measures.operations) {
    const bool constant = measures.unfinished.empty();
    check.status = constant ? CheckStatus::kNotApplicable : CheckStatus::kUnfinished;
    check.reason = constant ? "the output is constant, so no operation matters"
                            : "the time ran out while " + measures.unfinished;
    return check;
  }
  check.measured =
      fmt::format("{} of {} left out one by one", measures.operations_tried, *measures.operations);
  for (const OperationMeasures& operation : measures.redundant) {
    if (operation.only_for.empty()) {
      Flag(check, fmt::format("{} {}", Place(operation), Effect(operation)));
    } else {
      Measured(check, fmt::format("{} matters only for {}", Place(operation),
                                  fmt::join(operation.only_for, " and ")));
    }
  }
  if (check.status == CheckStatus::kFlagged) {
    check.reason +=
        ": no output changes by more than the judge's tolerance; remove the operation from the "
        "reference, or draw inputs on which it matters";
  } else if (measures.operations_tried < *measures.operations) {
    check.status = CheckStatus::kUnfinished;
    check.reason = "the time ran out while " + measures.unfinished;
  }
  return check;
}

}  // namespace cupel::oracle
