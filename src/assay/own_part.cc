// SPDX-License-Identifier: Apache-2.0
#include "assay/own_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/name_some.h"
#include "build/operators.h"

namespace cupel::assay {

void AddReason(records::Verdict& verdict, records::Decision decision, records::Reason reason) {
  verdict.decision = decision;
  verdict.reasons.push_back(std::move(reason));
}

records::Decision DecisionFor(bool unsupported) {
  return unsupported ? records::Decision::kUnsupported : records::Decision::kRejected;
}

void JudgeOperators(records::Verdict& verdict, const Question& question,
                    const std::set<std::string>& operators, bool has_kernel) {
  constexpr size_t kShown = 8;
  if (operators.empty()) {
    const bool contains = std::find(verdict.notes.begin(), verdict.notes.end(),
                                    build::kCallsOperators) != verdict.notes.end();
    const bool allows_some = question.operators.all || !question.operators.names.empty();
    if (!contains || allows_some) return;
    AddReason(verdict, records::Decision::kRejected,
              {"framework_operator",
               "host code contains calls of PyTorch's operators, which are not allowed for this "
               "task, although no judged call made one; --operators allowed permits them",
               ""});
    return;
  }
  const std::vector<std::string> names(operators.begin(), operators.end());
  std::vector<std::string> refused;
  std::copy_if(names.begin(), names.end(), std::back_inserter(refused),
               [&](const std::string& name) { return !question.operators.Allow(name); });
  if (!has_kernel) {
    AddReason(verdict, records::Decision::kRejected,
              {"no_kernel",
               fmt::format(
                   "no kernel of the candidate has a part in the result: PyTorch computes it ({})",
                   NameSome(names, kShown)),
               ""});
  } else if (!refused.empty()) {
    AddReason(verdict, records::Decision::kRejected,
              {"framework_operator",
               fmt::format("host code lets PyTorch compute a part of the result ({}), which is not "
                           "allowed for this task; --operators allowed permits it",
                           NameSome(refused, kShown)),
               ""});
  } else {
    verdict.notes.push_back(
        fmt::format("PyTorch computes a part of the result: {}", NameSome(names, kShown)));
  }
}

void JudgeCopies(records::Verdict& verdict, const plan::OwnWork& own_work) {
  const bool is_accepted = verdict.decision == records::Decision::kAccepted;
  if (!is_accepted || own_work.kernels || own_work.products) return;
  AddReason(
      verdict, records::Decision::kRejected,
      {"no_kernel",
       "no kernel of the candidate has a part in the result: PyTorch copies and fills memory", ""});
}

}  // namespace cupel::assay
