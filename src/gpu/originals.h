// The arguments of one input set that calls change by contract, as they were, in memory that no
// plan uses. All kernels that are timed on the set share them. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "gpu/block.h"
#include "gpu/memory.h"
#include "plan/plan.h"

namespace cupel::gpu {

class Originals {
 public:
  /// Of the arguments that one of the plans, all for this set, lets kernels change.
  explicit Originals(const std::vector<const plan::Plan*>& plans);
  uint64_t bytes() const { return bytes_; }
  /// Null if there are none.
  const Block* block() const { return block_ ? &*block_ : nullptr; }

  /// kInternal if the plans do not match the arguments.
  Status Fill(const Device& device, std::span<const std::span<const std::byte>> arguments);
  /// 0 if calls do not change this argument.
  CuPointer AddressOf(int argument) const;
  /// Enqueues copies of them to where the plan has them.
  Status Restore(const Device& device, const plan::Plan& plan, const PlanMemory& memory) const;

 private:
  struct Part {
    uint64_t offset = 0, bytes = 0;  // in the block
  };
  std::map<int, Part> parts_;  // by argument
  uint64_t bytes_ = 0;
  std::optional<Block> block_;
};

}  // namespace cupel::gpu
