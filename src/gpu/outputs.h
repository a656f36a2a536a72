// What a replayed plan left in its buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/run.h"
#include "gpu/memory.h"

namespace cupel::gpu {

/// Device memory at `from`, waited for.
Status ReadBack(const Device& device, CuPointer from, std::span<std::byte> to);

/// Where in device memory at `from` the first byte differs from `wanted`; nothing: nowhere.
Result<std::optional<uint64_t>> FirstDifference(const Device& device, CuPointer from,
                                                std::span<const std::byte> wanted);

/// The outputs as the plan's views see them. A view outside its buffer is a finding.
Result<std::vector<engine::OutputTensor>> ReadOutputs(const Device& device,
                                                      const PlanMemory& memory,
                                                      const plan::Plan& plan,
                                                      std::vector<engine::Finding>* findings);

/// Arguments that no longer hold what was given, as findings.
Status FindChangedArguments(const Device& device, const PlanMemory& memory, const plan::Plan& plan,
                            std::span<const std::span<const std::byte>> arguments,
                            std::vector<engine::Finding>* findings);

/// A write beside a buffer, as a finding.
Status FindStrayWrites(const PlanMemory& memory, std::vector<engine::Finding>* findings);

}  // namespace cupel::gpu
