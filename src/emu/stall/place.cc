// Tested by stall_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/stall/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "emu/check/report.h"
#include "emu/core/cluster.h"
#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"

namespace cupel::emu {
Place PlaceOf(const Warp& warp, MemorySpace space, int lane, uint64_t address, uint32_t bytes) {
  space = SpaceOfAddress(space, &address);
  Place place{space, address, nullptr, nullptr, bytes};
  const auto within = [&](uint64_t size) {
    return bytes <= size && place.address <= size - bytes && place.address % bytes == 0;
  };
  switch (place.space) {
    case MemorySpace::kShared:
      if (const SharedPlace shared = FindShared(*warp.block, address); shared.block != nullptr) {
        if (shared.block != warp.block) place.block = shared.block;
        place.address = shared.offset;
        if (within(warp.shared_bytes)) place.host = shared.block->memory + place.address;
      }
      break;
    case MemorySpace::kLocal:
      if (within(warp.local_bytes)) place.host = LocalByte(warp, lane, place.address);
      break;
    case MemorySpace::kParam:
      if (within(warp.param_bytes)) place.host = warp.param + place.address;
      break;
    default:
      if (warp.worker->launch->memory->Contains(place.address, bytes)) {
        place.host = warp.worker->launch->memory->Host(place.address);
      }
  }
  return place;
}

std::string Place::Describe(const Warp& warp) const {
  if (space == MemorySpace::kGlobal) return warp.worker->launch->memory->Describe(address);
  const char* name = space == MemorySpace::kShared  ? "shared memory"
                     : space == MemorySpace::kLocal ? "local memory"
                                                    : "parameters";
  if (block != nullptr) {
    return fmt::format("shared memory of block {} + {} bytes", Text(block->index), address);
  }
  return fmt::format("{} + {} bytes", name, address);
}

uint64_t AddressOf(const Warp& warp, const Op* op, int lane) {
  return LaneAddress(warp, op, AccessShape::Unpack(op->aux).space, lane, op->imm);
}

void NoteTouched(const Warp& warp, const Op* op, uint32_t lanes, std::vector<Touched>* all) {
  const AccessShape shape = AccessShape::Unpack(op->aux);
  const uint32_t bytes = std::min(shape.bytes(), 32u);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = AddressOf(warp, op, lane);
    Place place = PlaceOf(warp, shape.space, lane, address, bytes);
    if (place.host == nullptr) continue;  // the op reports this
    Touched touched{place.host, bytes, place.space == MemorySpace::kLocal, {}};
    if (touched.is_private) {
      // The words of a lane are not contiguous.
      for (uint32_t at = 0; at < bytes; at += 4) {
        touched.bytes = std::min(bytes - at, 4u);
        touched.host = place.host + uint64_t{at} * kLanes;
        std::memcpy(touched.before.data(), touched.host, touched.bytes);
        all->push_back(touched);
      }
      continue;
    }
    std::memcpy(touched.before.data(), touched.host, bytes);
    all->push_back(touched);
  }
}

}  // namespace cupel::emu
