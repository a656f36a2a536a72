// Kernels that change tensor maps: tensormap.replace, tensormap.cp_fenceproxy,
// fence.proxy.tensormap. A map in memory has the layout of plan/tensor_map.h. Each replacement
// makes a map of the bytes; a copy that uses it reports what is wrong with it.
// SPDX-License-Identifier: Apache-2.0
#include "emu/ops/tensor_map.h"

#include <array>
#include <cstring>
#include <span>

#include "emu/check/report.h"
#include "emu/check/sync_notes.h"
#include "emu/core/block_state.h"
#include "emu/core/handler_table.h"
#include "emu/core/lane_addresses.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/tensor_map_field.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "plan/tensor_map.h"

namespace cupel::emu {

std::byte* MapBytes(Warp& warp, const Op* op, MemorySpace space, int lane, uint64_t address,
                    bool store) {
  constexpr uint32_t kHalf = plan::kTensorMapBytes / 2;  // the alignment of maps, too
  std::byte* first = nullptr;
  for (uint64_t at = address; at <= address + kHalf; at += kHalf) {
    LaneAddresses lanes;
    if (!AddAddress(warp, op, space, lane, at, kHalf, store, lanes)) return nullptr;
    std::byte* host = lanes.host[lane];
    if (host == nullptr) {
      MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kLocal, lane, at, kHalf, store);
      return nullptr;
    }
    AccessKind kind;
    kind.store = store;
    if (!ObserveAddresses(warp, op, kind, kHalf, lanes)) return nullptr;
    if (first == nullptr) first = host;
  }
  return first;
}

namespace {

/// The types as tensormap.replace numbers them.
plan::TensorMapType ElementType(uint64_t value) {
  using plan::TensorMapType;
  static constexpr std::array kTypes = {
      TensorMapType::kU8,       TensorMapType::kU16,      TensorMapType::kU32,
      TensorMapType::kS32,      TensorMapType::kU64,      TensorMapType::kS64,
      TensorMapType::kF16,      TensorMapType::kF32,      TensorMapType::kF32Ftz,
      TensorMapType::kF64,      TensorMapType::kBF16,     TensorMapType::kTF32,
      TensorMapType::kTF32Ftz,  TensorMapType::kU4Align8, TensorMapType::kU4Align16,
      TensorMapType::kU6Align16};
  return value < kTypes.size() ? kTypes[value] : TensorMapType{0xff};
}

/// A larger atom needs the swizzle of 128 bytes, so it is one of plan::Swizzle.
plan::Swizzle SwizzleOf(plan::Swizzle old, MapField field, uint64_t value) {
  using plan::Swizzle;
  constexpr auto kWidest = static_cast<uint64_t>(Swizzle::k128B);
  if (field == MapField::kSwizzleAtomicity) {
    if (value != 0) return static_cast<Swizzle>(kWidest + value);
    return old > Swizzle::k128B ? Swizzle::k128B : old;
  }
  if (value == kWidest && old > Swizzle::k128B) return old;
  return value <= kWidest ? static_cast<Swizzle>(value) : Swizzle{0xff};
}

void Replace(plan::EncodedTensorMap& tensor, MapField field, size_t ordinal, uint64_t value) {
  plan::TensorMap& map = tensor.map;
  const auto word = static_cast<uint32_t>(value);
  switch (field) {
    case MapField::kGlobalAddress:
      tensor.address = value;
      break;
    case MapField::kRank:
      map.rank = static_cast<int>(word & 7u) + 1;
      break;
    case MapField::kBoxDim:
      map.box[ordinal] = word;
      break;
    case MapField::kGlobalDim:
      map.dims[ordinal] = word;
      break;
    case MapField::kGlobalStride:
      map.strides[ordinal] = value;
      break;
    case MapField::kElementStride:
      map.element_strides[ordinal] = word;
      break;
    case MapField::kElementType:
      map.type = ElementType(word);
      break;
    case MapField::kInterleave:
      map.interleave = static_cast<plan::Interleave>(word);
      break;
    case MapField::kSwizzleMode:
    case MapField::kSwizzleAtomicity:
      map.swizzle = SwizzleOf(map.swizzle, field, word);
      break;
    case MapField::kFillMode:
      map.fill = static_cast<plan::OobFill>(word);
      break;
  }
}

/// src: address, value (64 bits); flops: a MapField and an ordinal; aux: an AccessShape with the
/// space.
const Op* ReplaceField(Warp& warp, const Op* op) {
  const MemorySpace space = AccessShape::Unpack(op->aux).space;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint64_t address = LaneAddress(warp, op, space, lane, op->imm);
    if (MapBytes(warp, op, space, lane, address, false) == nullptr) return nullptr;
    std::byte* host = MapBytes(warp, op, space, lane, address, true);
    if (host == nullptr) return nullptr;
    const std::span<std::byte, plan::kTensorMapBytes> bytes(host, plan::kTensorMapBytes);
    plan::EncodedTensorMap tensor = plan::FieldsOfTensorMap(bytes);
    Replace(tensor, static_cast<MapField>(op->flops & 255u), op->flops >> 8,
            At<const uint64_t>(warp, op->src[1])[lane]);
    const auto encoded = plan::EncodeTensorMap(tensor.map, tensor.address);
    std::memcpy(host, encoded.data(), encoded.size());
    uint64_t global = address;
    if (warp.checking && SpaceOfAddress(space, &global) == MemorySpace::kGlobal) {
      warp.worker->launch->changed_maps.Change(global, warp.block->number, false);
    }
  }
  return op + 1;
}

/// src: address in global memory, address in shared memory; aux: as of "@fence". All lanes name the
/// same map.
const Op* CopyMap(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  if (warp.checking) NoteWarpSync(warp, kFullMask);
  const uint64_t to = At<const uint64_t>(warp, op->src[0])[0];
  const std::byte* source =
      MapBytes(warp, op, MemorySpace::kShared, 0, At<const uint32_t>(warp, op->src[1])[0], false);
  if (source == nullptr) return nullptr;
  std::byte* target = MapBytes(warp, op, MemorySpace::kGlobal, 0, to, true);
  if (target == nullptr) return nullptr;
  std::memcpy(target, source, plan::kTensorMapBytes);
  if (!warp.checking) return op + 1;
  NoteWarpSync(warp, kFullMask);
  NoteFence(warp, op->aux != 0);
  warp.worker->launch->changed_maps.Change(to, warp.block->number, true);
  return op + 1;
}

/// src[0]: the address of the map to acquire; -1: a release.
const Op* FenceMap(Warp& warp, const Op* op) {
  if (!warp.checking) return op + 1;
  ChangedMaps& maps = warp.worker->launch->changed_maps;
  if (op->src[0] < 0) {
    maps.Release(warp.block->number);
    return op + 1;
  }
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    maps.Acquire(At<const uint64_t>(warp, op->src[0])[__builtin_ctz(rest)]);
  }
  return op + 1;
}

}  // namespace

void RegisterTensorMaps(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@tensormap.replace", &ReplaceField);
  add("@tensormap.copy", &CopyMap);
  add("@tensormap.fence", &FenceMap);
}

}  // namespace cupel::emu
