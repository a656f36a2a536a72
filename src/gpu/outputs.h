// Reads and checks the buffers of a replayed plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/run.h"
#include "gpu/memory.h"

namespace cupel::gpu {

/// Copies device memory at `from` to the host. Waits for the stream.
Status ReadBack(const Device& device, CuPointer from, std::span<std::byte> to);

/// The position of the first byte of device memory at `from` that differs from `wanted`. nullopt if
/// all are equal.
Result<std::optional<uint64_t>> FirstDifference(const Device& device, CuPointer from,
                                                std::span<const std::byte> wanted);

/// The outputs that the plan's views describe. A view outside its buffer is a finding.
Result<std::vector<engine::OutputTensor>> ReadOutputs(const Device& device,
                                                      const PlanMemory& memory,
                                                      const plan::Plan& plan,
                                                      std::vector<records::Finding>* findings);

/// Adds a finding for each argument that no longer has its given contents.
Status FindChangedArguments(const Device& device, const PlanMemory& memory, const plan::Plan& plan,
                            std::span<const std::span<const std::byte>> arguments,
                            std::vector<records::Finding>* findings);

/// Adds a finding if something outside the buffers was written.
Status FindStrayWrites(const PlanMemory& memory, std::vector<records::Finding>* findings);

}  // namespace cupel::gpu
