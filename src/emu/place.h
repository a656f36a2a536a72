// Where addresses of loads and stores lead: for saying what a loop reads, and for seeing whether a
// store changes anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/op.h"

namespace cupel::emu {

/// A place that a loop reads.
struct Place {
  MemorySpace space = MemorySpace::kGlobal;
  uint64_t address = 0;             // in its space
  const std::byte* host = nullptr;  // null when it is nowhere
  uint32_t bytes = 0;
  std::string Describe(const Warp& warp) const;  // "buffer 1 + 128 bytes"
};
/// Where `address` of a lane of the warp is, in `space` or where a generic address says.
Place PlaceOf(const Warp& warp, MemorySpace space, int lane, uint64_t address, uint32_t bytes);

/// The address that a load, store or atomic operation names in a lane.
uint64_t AddressOf(const Warp& warp, const Op* op, int lane);

/// Bytes that an op may write, as they were before.
struct Touched {
  const std::byte* host = nullptr;
  uint32_t bytes = 0;
  bool is_private = false;  // to a thread
  std::array<std::byte, 32> before{};
};

/// Before a store or an atomic operation by `lanes`. Addresses that lead nowhere are left out.
void NoteTouched(const Warp& warp, const Op* op, uint32_t lanes, std::vector<Touched>* touched);

}  // namespace cupel::emu
