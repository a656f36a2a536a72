// What one call of a candidate does on a GPU: Nsight Compute's metrics and advice, or CUPTI's times
// where there is no Nsight Compute; ptxas's resources and the emulator's counts beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "build/image.h"
#include "engine/engine.h"
#include "gpu/kernel_facts.h"
#include "plan/plan.h"

namespace cupel::cli {

struct GpuLaunch {
  gpu::KernelFacts facts;
  int launch = -1;  // which of the plan's launches
  build::KernelResources ptxas;
  bool has_ptxas = false;
};

struct GpuProfile {
  std::string source;        // "Nsight Compute 2025.3.1.0", "CUPTI 130001"; empty: neither
  std::string missing;       // why there is no more than that; empty: nothing is
  std::string not_emulated;  // why there are no counts; empty: there are
  std::vector<GpuLaunch> launches;
  size_t all_launches = 0;  // of the plan
  /// What the call must move at least: its arguments once, its outputs once.
  uint64_t must_read_bytes = 0, must_write_bytes = 0;
  engine::Counters emulated;
};

/// A call to be profiled; borrowed.
struct GpuCall {
  const plan::Plan& plan;
  const build::Image& image;
  std::span<const std::span<const std::byte>> arguments;
  const device::Description& device;
  int ordinal = 0;
  std::filesystem::path keep;  // folder for the call and the report; empty: a temporary one
  std::filesystem::path program = "/proc/self/exe";  // that knows gpu::kOneShotCommand
};

/// An Error means that cupel could not work; that a profiler is missing is said in the profile.
Result<GpuProfile> ProfileOnGpu(const GpuCall& call);

/// As in "cupel.profile/1" (docs/formats).
Json ToJson(const GpuProfile& profile);

}  // namespace cupel::cli
