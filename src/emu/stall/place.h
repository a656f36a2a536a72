// The locations of loads and stores: used to describe what a loop reads, and to find out whether a
// store changes anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// A memory location that a loop reads.
struct Place {
  MemorySpace space = MemorySpace::kGlobal;
  uint64_t address = 0;               // in its space
  const std::byte* host = nullptr;    // null if the address is invalid
  const BlockState* block = nullptr;  // whose shared memory it is, if not the warp's own block
  uint32_t bytes = 0;
  std::string Describe(const Warp& warp) const;  // "buffer 1 + 128 bytes"
};
/// The location of `address` in a lane of the warp, in `space` or as a generic address.
Place PlaceOf(const Warp& warp, MemorySpace space, int lane, uint64_t address, uint32_t bytes);

/// The address of a load, store or atomic operation in a lane.
uint64_t AddressOf(const Warp& warp, const Op* op, int lane);

/// Bytes that an op may write, with their previous values.
struct Touched {
  const std::byte* host = nullptr;
  uint32_t bytes = 0;
  bool is_private = false;  // to a thread
  std::array<std::byte, 32> before{};
};

/// Call before a store or an atomic operation by `lanes`. Skips invalid addresses.
void NoteTouched(const Warp& warp, const Op* op, uint32_t lanes, std::vector<Touched>* touched);

}  // namespace cupel::emu
