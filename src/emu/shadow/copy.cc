// Shadows through asynchronous copies: cells are copied when the copy is issued. Until the wait
// completes, memory has other bits, so the cells are not valid.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "emu/core/bulk.h"
#include "emu/core/cluster.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/ops/bulk.h"
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
  return {LeafOf(ws.field, ValueOfBits(DType::kF32, bits)), static_cast<uint32_t>(bits),
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

/// The shared::cluster address of a byte in the shared memory of a block of the cluster.
uint64_t ClusterAddress(const Warp& warp, const BlockState& block, const std::byte* host) {
  const auto offset = static_cast<uint64_t>(host - block.memory);
  if (&block == warp.block) return offset;
  const auto& blocks = warp.block->cluster->blocks;
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    if (blocks[rank].get() == &block) return (rank + 1) << kRankShift | offset;
  }
  return offset;
}

/// The cells of one run of a bulk copy.
void CopyRunCells(WarpShadow& ws, const Warp& warp, const BulkCopy& copy, const CopyRun& run) {
  const auto address = [&](const BlockState* block, const std::byte* host) {
    return block == nullptr ? reinterpret_cast<uint64_t>(host) - warp.bias
                            : ClusterAddress(warp, *block, host);
  };
  const auto space = [](const BlockState* block) {
    return block == nullptr ? MemorySpace::kGlobal : MemorySpace::kShared;
  };
  if (copy.target == nullptr) ws.memory->Touch(address(nullptr, run.to), run.bytes);
  for (uint32_t at = 0; at + 1 < run.bytes; at += 2) {
    Cell cell;
    if (run.from != nullptr && copy.reduction == Reduction::kNone) {
      if (copy.source == nullptr) {
        cell = SourceCell(ws, warp, address(nullptr, run.from + at));
      } else if (const Cell* from = CellAt(ws, space(copy.source), copy.lane,
                                           address(copy.source, run.from + at))) {
        cell = *from;
      }
    }
    if (Cell* to =
            CellForStore(ws, space(copy.target), copy.lane, address(copy.target, run.to + at))) {
      *to = cell;
    }
  }
}

/// Bulk copies, each by one thread.
template <bool IsMasked>
const Op* BulkThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const uint32_t active = warp.active;
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const std::optional<BulkCopy> copy = BulkCopyOf(warp, op, __builtin_ctz(rest));
    if (!copy) return nullptr;
    for (const BulkCopy& one : TargetsOf(warp, op, *copy)) {
      for (const CopyRun& run : one.runs) CopyRunCells(ws, warp, one, run);
    }
  }
  return next;
}

/// st.async and red.async. The cells of a reduction's destination are lost.
template <bool IsMasked>
const Op* StoreAsyncThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const uint32_t active = warp.active;
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  const bool wide = op->aux == 8;
  const bool keeps = BulkShape::Unpack(op->flops).reduction == Reduction::kNone;
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    const uint64_t to = At<const uint32_t>(warp, op->src[0])[i] + static_cast<uint32_t>(op->target);
    Cell cells[4] = {};
    if (keeps) ReadCells(ws, warp, op->src[1], wide, i, cells);
    for (uint32_t g = 0; 2 * g < op->aux; ++g) {
      if (Cell* cell = CellForStore(ws, MemorySpace::kShared, i, to + 2 * g)) *cell = cells[g];
    }
  }
  return next;
}

}  // namespace

Thunks CopyThunks() { return {&CopyThunk<false>, &CopyThunk<true>}; }
Thunks StoreAsyncThunks() { return {&StoreAsyncThunk<false>, &StoreAsyncThunk<true>}; }
Thunks BulkCopyThunks() { return {&BulkThunk<false>, &BulkThunk<true>}; }

}  // namespace cupel::emu
