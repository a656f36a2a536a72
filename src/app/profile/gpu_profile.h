// A profile of one call of a candidate on a GPU: Nsight Compute's metrics and advice, or CUPTI's
// times if Nsight Compute is missing. ptxas's resources and the emulator's counts are added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json.h"
#include "build/image.h"
#include "engine/engine.h"
#include "gpu/kernel_facts.h"
#include "plan/plan.h"

namespace cupel::app {

struct GpuLaunch {
  gpu::KernelFacts facts;
  int launch = -1;  // index among the plan's launches; -1: unknown
  build::KernelResources ptxas;
  bool has_ptxas = false;
  int image = 0;  // that has the kernel
};

struct GpuProfile {
  std::string source;        // "Nsight Compute 2025.3.1.0", "CUPTI 130001"; empty: neither
  std::string missing;       // why the profile is incomplete; empty if complete
  std::string not_emulated;  // why there are no emulator counts; empty if there are
  std::vector<GpuLaunch> launches;
  size_t all_launches = 0;  // of the plan
  /// The least that the call must move: read its arguments once, write its outputs once.
  uint64_t must_read_bytes = 0, must_write_bytes = 0;
  records::Counters emulated;
};

/// A call to profile. Borrows its parts.
struct GpuCall {
  const plan::Plan& plan;
  const build::Images& images;  // of the plan
  std::span<const std::span<const std::byte>> arguments;
  const device::Description& device;
  int ordinal = 0;
  std::filesystem::path keep;  // folder for the call and the report; empty: a temporary one
  std::filesystem::path program = "/proc/self/exe";  // must support gpu::kOneShotCommand
  std::stop_token stop = {};                         // ends the profiler and the emulation
  /// Reserves the GPU while the profiler uses it. Empty: no need.
  std::function<Result<std::shared_ptr<void>>()> reserve = {};
};

/// An Error means that cupel itself failed, or that the GPU could not be reserved. A missing
/// profiler is not an Error: see GpuProfile::missing.
Result<GpuProfile> ProfileOnGpu(const GpuCall& call);

/// As in "cupel.profile/1" (docs/formats).
Json ToJson(const GpuProfile& profile);

}  // namespace cupel::app
