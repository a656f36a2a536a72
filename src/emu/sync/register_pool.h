// The registers of a block that setmaxnreg moves between its warps (sm_90a). A block has those that
// its warps had at the launch. On the device an increase waits until enough of them are free; here
// it never waits, and the block's end shows whether all increases could be met. An increase that
// waits for a warp which itself waits for this one is therefore not found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

class RegisterPool {
 public:
  explicit RegisterPool(size_t warps) : held_(warps) {}

  /// A warp's threads keep `registers` each from now on; `at_launch` each had at the launch.
  void Set(const Warp& warp, const Op* op, uint32_t registers, uint32_t at_launch);
  /// The block has ended. Returns false after an error: the warps together kept more registers than
  /// the block has, so on the device one of them still waits.
  bool Check(Warp& last) const;

 private:
  std::vector<uint32_t> held_;  // by warp: registers of a thread; 0: as at the launch
  uint32_t at_launch_ = 0;
  const Op* increase_ = nullptr;  // the last one
  uint32_t warp_ = 0;             // that executed it
};

}  // namespace cupel::emu
