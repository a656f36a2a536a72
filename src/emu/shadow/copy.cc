// Shadows through asynchronous copies: cells are copied when the copy is issued. Until the wait
// completes, memory has other bits, so the cells are not valid.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// The cell of a granule of global memory. For floats of an input that the kernel may load as
/// integers, returns a cell that identifies them as floats.
Cell SourceCell(const WarpShadow& ws, const Warp& warp, uint64_t address) {
  if (const Cell* cell = CellAt(ws, MemorySpace::kGlobal, 0, address)) return *cell;
  if (!ws.code->shared_integers || address % 4 != 0 || !ws.memory->AreFloats(address)) return {};
  const uint64_t bits = BitsInMemory(warp, MemorySpace::kGlobal, 0, address, 4);
  return {ValueOfBits(DType::kF32, bits), static_cast<uint32_t>(bits),
          StateOf(ShadowKind::kSingle)};
}

template <bool IsMasked>
const Op* CopyThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  uint64_t from[kLanes] = {}, to[kLanes] = {};
  uint32_t length[kLanes] = {};
  const uint32_t ignored = op->src[3] < 0 ? 0 : MaskAt(warp, op->src[3]);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    to[i] = At<const uint32_t>(warp, op->src[0])[i] + static_cast<uint32_t>(op->target);
    to[i] = static_cast<uint32_t>(to[i]);
    from[i] = At<const uint64_t>(warp, op->src[1])[i] + static_cast<uint64_t>(op->imm);
    const uint32_t asked = op->src[2] < 0 ? op->flops : At<const uint32_t>(warp, op->src[2])[i];
    length[i] = ((ignored >> i) & 1u) != 0 ? 0 : std::min(asked, op->flops);
  }
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    for (uint32_t at = 0; at + 1 < op->flops; at += 2) {
      Cell cell;
      if (at + 1 < length[i]) cell = SourceCell(ws, warp, from[i] + at);
      *CellForStore(ws, MemorySpace::kShared, i, to[i] + at) = cell;
    }
  }
  return next;
}

/// A bulk copy by one thread, in either direction.
template <bool IsMasked>
const Op* BulkThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const bool to_global = AccessShape::Unpack(op->aux).store;
  const uint32_t active = warp.active;
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t shared = At<const uint32_t>(warp, op->src[0])[i];
    const uint64_t global = At<const uint64_t>(warp, op->src[1])[i];
    const uint32_t bytes = At<const uint32_t>(warp, op->src[2])[i];
    if (to_global && bytes > 0) ws.memory->Touch(global, bytes);
    for (uint32_t at = 0; at < bytes; at += 2) {
      Cell* in_shared = CellForStore(ws, MemorySpace::kShared, i, shared + at);
      if (to_global) {
        *ws.memory->At(global + at) = *in_shared;
      } else {
        *in_shared = SourceCell(ws, warp, global + at);
      }
    }
  }
  return next;
}

}  // namespace

Thunks CopyThunks() { return {&CopyThunk<false>, &CopyThunk<true>}; }
Thunks BulkCopyThunks() { return {&BulkThunk<false>, &BulkThunk<true>}; }

}  // namespace cupel::emu
