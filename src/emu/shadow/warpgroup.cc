// Shadows through wgmma: fragments take the shadows of the shared memory that they are read from;
// cleared accumulators are exact.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/warpgroup.h"

#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/memory.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

template <bool IsMasked>
const Op* ReadThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const WarpgroupRead read = WarpgroupRead::Unpack(op->flops);
  const MatrixDescriptor matrix(At<const uint64_t>(warp, op->src[0])[0]);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  const uint32_t first = 8 * (read.first + (read.of_left ? warp.index % 4 * 2 : 0));
  const int32_t* slot = ListOf(warp, op);
  for (uint32_t block = 0; block < read.depth * read.lines; ++block, ++slot) {
    ws.result->planes = 2;
    ws.result->raw = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Cell cells[4] = {};
      for (uint32_t g = 0; g < 2; ++g) {
        const uint32_t line = first + block / read.depth * 8 + lane / 4;
        const uint32_t byte = block % read.depth * 16 + lane % 4 * 4 + 2 * g;
        const uint32_t address =
            read.transposed ? matrix.OfColumns(line, byte / 2) : matrix.OfLines(line, byte);
        if (const Cell* from = CellAt(ws, MemorySpace::kShared, 0, address)) cells[g] = *from;
      }
      DropStale(SlotBits(warp, *slot, false, static_cast<int>(lane)), cells, 2);
      for (int g = 0; g < 2; ++g) {
        ws.result->exact[g][lane] = cells[g].exact;
        ws.result->state[g][lane] = cells[g].state;
      }
    }
    CommitShadow(ws, warp, *slot, false);
  }
  return next;
}

template <bool IsMasked>
const Op* ClearThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const bool clears = At<const uint32_t>(warp, op->src[0])[0] == 0;
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr || !clears) return next;
  const int32_t* slot = ListOf(warp, op);
  for (uint32_t i = 0; i < op->flops; ++i) ClearShadow(ws, warp, slot[i], false);
  return next;
}

}  // namespace

Thunks WarpgroupReadThunks() { return {&ReadThunk<false>, &ReadThunk<true>}; }
Thunks WarpgroupClearThunks() { return {&ClearThunk<false>, &ClearThunk<true>}; }

}  // namespace cupel::emu
