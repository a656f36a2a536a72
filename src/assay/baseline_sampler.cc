// SPDX-License-Identifier: Apache-2.0
#include "assay/baseline_sampler.h"

#include <fmt/format.h>

namespace cupel::assay {
namespace {

using engine::TimingMode;
using Mode = oracle::Baselines::Mode;

/// A compiled result that differs by more than this share of the largest element is reported.
constexpr double kOddDifference = 1e-3;

/// A named baseline that differs by more computes something else: floats by more than this share of
/// the largest element, or in the RMS of all (8-bit results differ by 1/16), integers in more than
/// this share of the elements (choices among equals may differ).
constexpr double kOtherFunction = 0.1;

}  // namespace

std::optional<records::Reason> ComputesOther(const oracle::BaselineInfo& info) {
  if (info.baseline.kind != oracle::BaselineKind::kNamed) return std::nullopt;
  for (const oracle::BaselineOutput& output : info.outputs) {
    const bool is_other = output.differing ? *output.differing > kOtherFunction
                                           : output.difference > kOtherFunction * output.largest ||
                                                 output.rms_share > kOtherFunction;
    if (output.is_none || !is_other) continue;
    const std::string how =
        output.differing
            ? fmt::format("in {:.0f} % of its elements", 100 * *output.differing)
            : fmt::format("by up to {:.2g} (largest element {:.2g}; RMS {:.2g} of eager's)",
                          output.difference, output.largest, output.rms_share);
    return records::Reason{
        "other_results",
        fmt::format(
            "its {} differs from eager's {}: it computes something else, so it is not timed",
            output.name, how),
        info.baseline.named.file.filename().string()};
  }
  return std::nullopt;
}

BaselineSampler::~BaselineSampler() { (void)torch_.Drop(info_.name); }

Result<std::vector<double>> BaselineSampler::Take(TimingMode mode, int set, int count) {
  const Mode asked = mode == TimingMode::kCold   ? Mode::kCold
                     : mode == TimingMode::kWarm ? Mode::kWarm
                                                 : Mode::kHost;
  auto taken = torch_.Take(info_.name, asked, info_.sets == 1 ? 0 : set, count);
  if (taken || taken.error().code == ErrorCode::kCancelled) return taken;
  if (mode == TimingMode::kHost) {  // plain calls need more memory than graphs and may fail alone
    no_host_ = taken.error().message;
    return std::vector<double>();
  }
  // Another baseline's compiler may have broken its process: only this baseline ends.
  Refuse({"baseline_failed", taken.error().message, ""});
  return std::vector<double>();
}

Result<records::EnergyUse> BaselineSampler::MeasureEnergy(double seconds) {
  TRY_ASSIGN(const oracle::BaselineEnergy energy, torch_.MeasureEnergy(info_.name, seconds));
  return records::EnergyUse{energy.joules, energy.watts, energy.calls};
}

void BaselineSampler::Describe(records::Timing* timing) const {
  timing->how = info_.how;
  timing->libraries = info_.libraries;
  if (info_.how != "graph") {
    timing->oddities.push_back("could not be captured as a graph, so launches are included: " +
                               info_.why);
  }
  if (!no_host_.empty()) {
    timing->oddities.push_back("plain calls were not timed: " + no_host_);
  }
  if (info_.tf32) timing->oddities.emplace_back("the task's code allows tf32");
  for (const oracle::BaselineOutput& output : info_.outputs) {
    if (output.is_none || output.difference <= kOddDifference * output.largest) continue;
    timing->oddities.push_back(
        fmt::format("its {} differs from eager's by up to {:.2g} (largest "
                    "element {:.2g})",
                    output.name, output.difference, output.largest));
  }
}

}  // namespace cupel::assay
