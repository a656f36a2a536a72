// SPDX-License-Identifier: Apache-2.0
#include "assay/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "assay/probe_sampler.h"

namespace cupel::assay {
namespace {

/// The memory's nominal rate may exceed the measured rate of a read-only kernel by this factor.
constexpr double kHeadroom = 1.1;
/// If the floor is shorter than this, launch overhead dominates and nothing can be concluded.
constexpr double kLeastFloorUs = 2;
constexpr double kWideSpread = 0.05, kWideInterval = 0.01;
constexpr double kWarmIsSlower = 1.05, kAboveRoofline = 1.05;

using records::ArithmeticUnit;

/// True if the function changes argument `leaf` (of TensorLeaves).
bool Changes(const task::Case& wanted, size_t leaf) {
  return std::any_of(wanted.outputs.begin(), wanted.outputs.end(),
                     [&](const auto& output) { return output.argument == static_cast<int>(leaf); });
}

/// The number of elements whose bytes differ. `after` is contiguous and has the same shape.
double DifferentElements(const task::Tensor& before, const task::Tensor& after) {
  const auto size = static_cast<size_t>(SizeOf(before.dtype));
  std::vector<int64_t> index(before.shape.size(), 0);
  int64_t place = before.offset, different = 0;
  for (int64_t element = 0; element < before.numel(); ++element) {
    const std::byte* is = after.storage.data() + static_cast<size_t>(after.offset + element) * size;
    const std::byte* was = before.storage.data() + static_cast<size_t>(place) * size;
    different += std::memcmp(is, was, size) != 0 ? 1 : 0;
    for (size_t d = index.size(); d-- > 0;) {
      place += before.strides[d];
      if (++index[d] < before.shape[d]) break;
      place -= before.strides[d] * before.shape[d];
      index[d] = 0;
    }
  }
  return static_cast<double>(different);
}

/// The elements of an output that the function must write.
double ElementsToWrite(const task::Case& wanted, const task::Output& output) {
  if (output.argument < 0) return static_cast<double>(output.Elements());
  const task::Tensor& before =
      *task::TensorLeaves(wanted.args)[static_cast<size_t>(output.argument)];
  return DifferentElements(before, output.reference);
}

}  // namespace

ArithmeticUnit UnitOf(const task::Case& wanted, bool tf32) {
  int narrowest = SizeOf(DType::kF64);
  bool any_float = false;
  const auto add = [&](DType dtype) {
    if (!IsFloating(dtype)) return;
    any_float = true;
    narrowest = std::min(narrowest, SizeOf(dtype));
  };
  for (const task::Tensor* tensor : task::TensorLeaves(wanted.args)) add(tensor->dtype);
  const bool eight_bit_inputs = narrowest == 1;
  for (const task::Output& output : wanted.outputs) {
    if (output.is_none) continue;
    if (output.dtype == DType::kF64) return ArithmeticUnit::kFloat64;
    add(output.dtype);
  }
  // Integer products run at the rate of float8 ones.
  if (eight_bit_inputs || !any_float) return ArithmeticUnit::kEightBit;
  if (narrowest <= 2) return ArithmeticUnit::kSixteenBit;
  if (narrowest == 8) return ArithmeticUnit::kFloat64;  // and an output of integers
  return tf32 ? ArithmeticUnit::kTf32 : ArithmeticUnit::kFloat32;
}

double RateOf(ArithmeticUnit unit, const records::Ceilings& ceilings) {
  switch (unit) {
    case ArithmeticUnit::kFloat32:
      return ceilings.fp32_flops;
    case ArithmeticUnit::kTf32:
      return ceilings.tf32_flops;
    case ArithmeticUnit::kSixteenBit:
      return ceilings.bf16_flops;
    case ArithmeticUnit::kEightBit:
      return 2 * ceilings.bf16_flops;  // by design, since Ada and Hopper
    case ArithmeticUnit::kFloat64:
      return ceilings.fp64_flops;
  }
  return 0;
}

double BytesToRead(const task::Case& wanted) {
  std::map<const std::byte*, double> storages;
  const std::vector<const task::Tensor*> leaves = task::TensorLeaves(wanted.args);
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const task::Tensor* tensor = leaves[leaf];
    if (tensor->storage.empty() || Changes(wanted, leaf)) continue;
    double elements = 1;  // of memory: expanded dimensions are read once
    for (size_t d = 0; d < tensor->shape.size(); ++d) {
      if (tensor->strides[d] != 0) elements *= static_cast<double>(tensor->shape[d]);
    }
    double& bytes = storages[tensor->storage.data()];
    bytes = std::max(bytes, std::min(elements * SizeOf(tensor->dtype),
                                     static_cast<double>(tensor->storage.size())));
  }
  double sum = 0;
  for (const auto& [storage, bytes] : storages) sum += bytes;
  return sum;
}

double BytesToWrite(const task::Case& wanted) {
  double sum = 0;
  for (const task::Output& output : wanted.outputs) {
    if (output.is_none) continue;
    sum += ElementsToWrite(wanted, output) * SizeOf(output.dtype);
  }
  return sum;
}

std::string BelowFloor(const records::Ceilings& ceilings, double peak_bytes, double l2_bytes,
                       const records::SettingTimes& setting, const records::Timing& timing) {
  const double rate = kHeadroom * std::max(ceilings.read_bytes, peak_bytes);
  const double evicted = std::max(0.0, setting.written_bytes - l2_bytes);
  const double us = timing.median.estimate;
  const double floor = (setting.read_bytes + evicted) / rate * 1e6;
  if (floor < kLeastFloorUs || us >= floor) return {};
  const std::string writes =
      evicted > 0 ? fmt::format(" and {:.4g} MB of results that do not fit into the L2 cache",
                                evicted / 1e6)
                  : "";
  return fmt::format(
      "{:.4g} us for {:.4g} MB of cold inputs{}, which take {:.4g} us at {:.4g} GB/s", us,
      setting.read_bytes / 1e6, writes, floor, rate / 1e9);
}

void Assess(const records::Ceilings& ceilings, double l2_bytes,
            const records::SettingTimes& setting, records::Timing* timing) {
  const double us = timing->median.estimate;
  const double bytes = setting.read_bytes + setting.written_bytes;
  timing->bytes_a_second = bytes / (us * 1e-6);
  timing->flops = setting.flops / (us * 1e-6);
  double best = setting.floor_us;
  if (ceilings.read_bytes > 0 && ceilings.copy_bytes > 0) {
    // The time of a copy minus the time of its reads is the time of its writes.
    const double write_seconds = 2 / ceilings.copy_bytes - 1 / ceilings.read_bytes;
    best += std::max(0.0, setting.written_bytes - l2_bytes) * write_seconds * 1e6;
  }
  if (const double rate = RateOf(setting.unit, ceilings); rate > 0) {
    best = std::max(best, setting.flops / rate * 1e6);
  }
  timing->roofline = best / us;

  const double half = (timing->median.high - timing->median.low) / 2;
  if (timing->spread > kWideSpread * us && timing->spread > 4 * kClockResolutionUs) {
    timing->oddities.push_back(fmt::format("times scatter by {:.0f} %", 100 * timing->spread / us));
  }
  if (half > kWideInterval * us && half > kClockResolutionUs) {
    timing->oddities.push_back(fmt::format("the median is uncertain by {:.1f} % after {} replays",
                                           100 * half / us, timing->samples.cold.size()));
  }
  if (timing->warm_us > kWarmIsSlower * us) {
    timing->oddities.push_back(fmt::format("slower with a warm L2: {:.4g} us", timing->warm_us));
  }
  if (timing->roofline > kAboveRoofline) {
    timing->oddities.push_back(fmt::format(
        "above the roofline of {} and memory: the kernel uses a faster unit, or computes or moves "
        "less than the formula assumes",
        records::Name(setting.unit)));
  }
  if (!timing->is_baseline && timing->name != kOwnProbe && timing->verified == 0) {
    timing->oddities.emplace_back("no timed replay was verified");
  }
  if (!timing->is_baseline && timing->verified > 0 && timing->visible == 0) {
    timing->oddities.emplace_back(
        "no changed input affected the outputs, so reuse of earlier results would not be detected");
  }
}

}  // namespace cupel::assay
