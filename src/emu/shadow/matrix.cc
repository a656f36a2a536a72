// Shadows through matrix instructions that move data: between memory and fragments (matrix.h has
// the layouts), and transposed.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/matrix.h"

#include <algorithm>

#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/shadow/pieces.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// Address of a lane, with its memory space.
uint64_t AddressOf(const Warp& warp, const Op* op, int lane, MemorySpace* space) {
  const MemorySpace asked = AccessShape::Unpack(op->aux).space;
  uint64_t address = LaneAddress(warp, op, asked, lane, op->target);
  *space = SpaceOfAddress(asked, &address);
  return address;
}

/// Copies the valid cells of a lane of a slot to the result.
void TakeLoaded(WarpShadow& ws, const Warp& warp, int32_t slot, bool wide, int lane, int granules,
                Cell (&cells)[4]) {
  DropStale(SlotBits(warp, slot, wide, lane), cells, granules);
  for (int g = 0; g < granules; ++g) {
    ws.result->exact[g][lane] = cells[g].exact;
    ws.result->state[g][lane] = cells[g].state;
  }
}
void Begin(WarpShadow& ws, int granules) {
  ws.result->planes = granules;
  ws.result->raw = 0;
}

/// Copies one granule's cell between memory and a lane's cells.
void MoveCell(WarpShadow& ws, bool store, MemorySpace space, uint64_t address, Cell& cell) {
  if (store) {
    if (space == MemorySpace::kGlobal) ws.memory->Touch(address, 2);
    if (Cell* to = CellForStore(ws, space, 0, address)) *to = cell;
  } else if (const Cell* from = CellAt(ws, space, 0, address)) {
    cell = *from;
  }
}

/// ldmatrix and stmatrix: 8x8 halves, with one row at each of eight lanes' addresses.
template <bool IsMasked>
const Op* RowsThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const bool store = AccessShape::Unpack(op->aux).store;
  const bool transposed = (op->flops & 8u) != 0;
  const int matrices = static_cast<int>(op->flops & 7u);
  uint64_t rows[kLanes];
  MemorySpace spaces[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) rows[lane] = AddressOf(warp, op, lane, &spaces[lane]);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  const int32_t* list = ListOf(warp, op);
  for (int j = 0; j < matrices; ++j) {
    Begin(ws, 2);
    for (int lane = 0; lane < kLanes; ++lane) {
      Cell cells[4] = {};
      if (store) ReadCells(ws, warp, list[j], false, lane, cells);
      for (int g = 0; g < 2; ++g) {
        const int line = lane / 4, column = lane % 4 * 2 + g;
        const int row = 8 * j + (transposed ? column : line);
        const auto at = static_cast<uint64_t>(transposed ? line : column);
        MoveCell(ws, store, spaces[row], rows[row] + 2 * at, cells[g]);
      }
      if (!store) TakeLoaded(ws, warp, list[j], false, lane, 2, cells);
    }
    if (!store) CommitShadow(ws, warp, list[j], false);
  }
  return next;
}

/// movmatrix: one 8x8 matrix of halves, transposed.
template <bool IsMasked>
const Op* TransposeThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  Cell halves[kLanes][2] = {};
  const bool live = IsLive(ws, op->src[0]) || IsRaw(ws, op->src[0]);
  for (int lane = 0; live && lane < kLanes; ++lane) {
    Cell cells[4];
    ReadCells(ws, warp, op->src[0], false, lane, cells);
    const bool whole = GranulesOf(KindOf(cells[0].state)) > 1;
    for (int g = 0; g < 2; ++g) halves[lane][g] = whole ? Piece(cells[0], g) : cells[g];
  }
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  Begin(ws, live ? 2 : 0);
  for (int lane = 0; live && lane < kLanes; ++lane) {
    for (int g = 0; g < 2; ++g) {
      const int row = lane / 4, column = lane % 4 * 2 + g;
      const Cell& from = halves[column * 4 + row / 2][row % 2];
      ws.result->exact[g][lane] = from.exact;
      ws.result->state[g][lane] = from.state;
    }
  }
  CommitShadow(ws, warp, op->dst, false);
  return next;
}

/// The expansion of a sparse fragment. Granules move as a whole; units of one byte lose their exact
/// values, and their flags go to the whole line.
template <bool IsMasked>
const Op* ExpandThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const SparseShape shape = SparseShape::Unpack(op->flops);
  const int32_t* sparse = ListOf(warp, op);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  const auto* words = At<const uint32_t>(warp, op->src[0]);
  for (uint32_t block = 0; block < 2 * shape.columns; ++block) {
    Cell lines[8][16] = {};  // granules of the dense lines
    for (uint32_t line = 0; line < 8; ++line) {
      const uint32_t metadata =
          shape.MetadataOf(words, block / shape.columns * 8 + line, block % shape.columns);
      Cell from[8] = {};
      uint32_t flags = 0;
      for (uint32_t g = 0; g < 8; g += 2) {
        Cell cells[4];
        ReadCells(ws, warp, sparse[block], false, static_cast<int>(line * 4 + g / 2), cells);
        for (uint32_t i = 0; i < 2; ++i) {
          from[g + i] = cells[i];
          flags |= cells[i].state & kFlags;
          if (IsFloatKind(KindOf(cells[i].state)) || KindOf(cells[i].state) == ShadowKind::kPair) {
            flags |= shape.unit == 1 ? kReset : 0;
          }
        }
      }
      for (uint32_t g = 0; g < 8 && shape.unit == 2; ++g) {
        const uint32_t index = metadata >> (2 * g) & 3u;
        lines[line][g / 2 * 4 + index] = from[g];
      }
      for (uint32_t g = 0; g < 16 && shape.unit == 1 && flags != 0; ++g) {
        lines[line][g].state = StateOf(ShadowKind::kShort, flags);
      }
    }
    for (uint32_t half = 0; half < 2; ++half) {
      const int32_t slot = sparse[2 * shape.columns + 2 * block + half];
      Begin(ws, 2);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        for (uint32_t g = 0; g < 2; ++g) {
          const Cell& cell = lines[lane / 4][half * 8 + lane % 4 * 2 + g];
          ws.result->exact[g][lane] = cell.exact;
          ws.result->state[g][lane] = cell.state;
        }
      }
      CommitShadow(ws, warp, slot, false);
    }
  }
  return next;
}

/// wmma.load and wmma.store.
template <bool IsMasked>
const Op* FragmentThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const FragmentShape shape = FragmentShape::Unpack(op->flops);
  const bool store = AccessShape::Unpack(op->aux).store;
  MemorySpace space = MemorySpace::kGlobal;
  const uint64_t address = AddressOf(warp, op, 0, &space);
  const uint64_t stride = At<const uint32_t>(warp, op->src[1])[0];
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr || shape.bits < 16) return next;  // 8-bit floats are not followed here
  const uint32_t of_slot = std::min(std::max(32u, shape.bits) / shape.bits, shape.elements);
  const uint32_t granules = shape.bits / 16;
  const bool wide = shape.bits == 64;
  const int32_t* slot = ListOf(warp, op);
  const uint32_t slots = shape.lines * shape.columns * (shape.elements / of_slot);
  for (uint32_t s = 0; s < slots; ++s, ++slot) {
    const uint32_t e = s % (shape.elements / of_slot) * of_slot;
    const uint32_t block = s / (shape.elements / of_slot);
    Begin(ws, static_cast<int>(of_slot * granules));
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Cell cells[4] = {};
      if (store) ReadCells(ws, warp, *slot, wide, static_cast<int>(lane), cells);
      for (uint32_t g = 0; g < of_slot * granules; ++g) {
        const uint64_t line = block / shape.columns * 8 + lane / 4;
        const uint64_t column =
            (block % shape.columns * 4 + lane % 4) * shape.elements + e + g / granules;
        const uint64_t element = shape.contiguous ? line * stride + column : column * stride + line;
        MoveCell(ws, store, space, address + element * shape.bits / 8 + 2 * (g % granules),
                 cells[g]);
      }
      if (!store) {
        TakeLoaded(ws, warp, *slot, wide, static_cast<int>(lane),
                   static_cast<int>(of_slot * granules), cells);
      }
    }
    if (!store) CommitShadow(ws, warp, *slot, wide);
  }
  return next;
}

}  // namespace

Thunks RowsThunks() { return {&RowsThunk<false>, &RowsThunk<true>}; }
Thunks ExpandThunks() { return {&ExpandThunk<false>, &ExpandThunk<true>}; }
Thunks FragmentThunks() { return {&FragmentThunk<false>, &FragmentThunk<true>}; }
Thunks TransposeThunks() { return {&TransposeThunk<false>, &TransposeThunk<true>}; }

}  // namespace cupel::emu
