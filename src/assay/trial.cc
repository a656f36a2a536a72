// SPDX-License-Identifier: Apache-2.0
#include "assay/trial.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace cupel::assay {

namespace {

bool AreNeighbours(DType dtype, double a, double b) {
  const bool away = std::fabs(a) > std::fabs(b);
  return std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= 2 * HalfStep(dtype, b, away);
}

}  // namespace

std::vector<records::Comparison> CompareAll(const engine::Run& run, const task::Case& wanted) {
  std::vector<records::Comparison> comparisons;
  const size_t count = std::min(run.outputs.size(), wanted.outputs.size());  // others are watched
  for (size_t i = 0; i < count; ++i) {
    const task::Output& output = wanted.outputs[i];
    records::Comparison comparison;
    comparison.ok = output.is_none;  // the task ignores this position
    const engine::OutputTensor& got = run.outputs[i];
    if (!output.is_none) {
      comparison =
          got.is_sampled ? judge::CompareWritten(got, output) : judge::Compare(got.View(), output);
    }
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

records::Comparison CompareRuns(const engine::OutputTensor& got, const engine::OutputTensor& clean,
                                const task::Output& wanted) {
  task::Output expected = wanted;
  expected.reference = expected.truth = clean.View();
  expected.rounded_truth.reset();  // of the case's own inputs
  // Atomics may leave a number on either side of a tie.
  if (!expected.neighbours.empty()) expected.neighbours.push_back(wanted.truth);
  std::vector<double> values;
  if (IsFloating(wanted.dtype)) {
    const task::Tensor view = clean.View(), other = got.View();
    const bool pairs = got.dtype == clean.dtype && got.shape == clean.shape &&
                       got.bytes.size() == clean.bytes.size();
    values.resize(static_cast<size_t>(view.numel()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = task::ElementAsDouble(view, static_cast<int64_t>(i));
      // Both runs round: sums that differ by next to nothing may become neighbouring numbers.
      const double mine = pairs ? task::ElementAsDouble(other, static_cast<int64_t>(i)) : 0;
      if (pairs && AreNeighbours(wanted.dtype, mine, values[i])) values[i] = mine;
    }
    expected.truth.dtype = DType::kF64;
    expected.truth.storage = std::as_bytes(std::span(values));
  }
  return judge::Compare(got.View(), expected);
}

std::function<bool()> EndAfter(std::chrono::seconds limit, std::stop_token stop) {
  return [end = std::chrono::steady_clock::now() + limit, stop = std::move(stop)] {
    return stop.stop_requested() || std::chrono::steady_clock::now() > end;
  };
}

bool IsOurs(const Error& error, const std::stop_token& stop) {
  return stop.stop_requested() || error.code == ErrorCode::kInternal ||
         error.code == ErrorCode::kBusy;
}

bool AllRight(const std::vector<records::Comparison>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const auto& c) { return c.ok; });
}

uint64_t WarpInstructions(const records::Counters& counters) {
  uint64_t sum = 0;
  for (const records::LaunchCounters& launch : counters.launches) sum += launch.warp_instructions;
  return sum;
}

uint64_t BudgetFor(const records::Counters& usual) {
  constexpr uint64_t kLeast = 50'000'000, kFactor = 50;
  return std::max(kLeast, kFactor * WarpInstructions(usual));
}

bool HasError(const std::vector<records::Finding>& findings) {
  for (const records::Finding& finding : findings) {
    if (finding.severity == records::Severity::kError) return true;
  }
  return false;
}

records::Finding* SameFinding(const records::Finding& finding, std::vector<records::Finding>& all) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const records::Finding& old) {
    return old.code == finding.code && old.kernel == finding.kernel && old.line == finding.line;
  });
  return same == all.end() ? nullptr : &*same;
}

void Merge(std::vector<records::Finding> more, std::vector<records::Finding>& all) {
  for (records::Finding& finding : more) {
    if (records::Finding* known = SameFinding(finding, all)) {
      known->count += finding.count;
    } else {
      all.push_back(std::move(finding));
    }
  }
}

}  // namespace cupel::assay
