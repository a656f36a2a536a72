// Shadows through matrix instructions: dot products of the operands' shadows, and moves between
// memory and fragments (matrix.h has the layouts).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "emu/matrix.h"
#include "emu/shadow.h"
#include "emu/shadow_pieces.h"
#include "emu/shadow_place.h"
#include "emu/shadow_small.h"

namespace cupel::emu {
namespace {

size_t Index(int position) { return static_cast<size_t>(position); }

Format FormatOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
      return Format::kF16;
    case MatrixType::kBF16:
      return Format::kBF16;
    case MatrixType::kTF32:
    case MatrixType::kF32:
      return Format::kF32;
    case MatrixType::kF64:
      return Format::kF64;
    default:
      return Format::kInteger;
  }
}

/// Blocks of 8 lines, each `depth` elements long, row by row; flags by line.
struct Blocks {
  std::vector<double> exact;
  std::vector<uint32_t> flags;  // 8 a block
  int depth = 4;

  /// Floats of 8 bits: two pairs in a slot.
  void ReadBytes(const WarpShadow& ws, const Warp& warp, MatrixType type, const int32_t* slots,
                 int count) {
    depth = 16;
    exact.resize(Index(count * 8 * depth));
    flags.assign(Index(count) * 8, 0);
    for (int block = 0; block < count; ++block) {
      const bool live = IsLive(ws, slots[block]) || IsRaw(ws, slots[block]);
      const auto* bytes = At<const uint8_t>(warp, slots[block]);
      for (int at = 0; at < 4 * kLanes; ++at) {
        exact[Index(block * 4 * kLanes + at)] = ValueOfByte(bytes[at], type == MatrixType::kE4M3);
      }
      for (int lane = 0; live && lane < kLanes; ++lane) {
        TakePairs(ws, warp, slots[block], lane, &exact[Index((block * kLanes + lane) * 4)],
                  &flags[Index(block * 8 + lane / 4)]);
      }
    }
  }
  static void TakePairs(const WarpShadow& ws, const Warp& warp, int32_t slot, int lane, double* to,
                        uint32_t* flagged) {
    Cell cells[4];
    ReadCells(ws, warp, slot, false, lane, cells);
    for (int g = 0; g < 2; ++g) {
      const ShadowKind kind = KindOf(cells[g].state);
      *flagged |= cells[g].state & kFlags;
      if (kind == ShadowKind::kPair) {
        const SmallPair pair = UnpackPair(cells[g].exact);
        to[2 * g] = pair.low;
        to[2 * g + 1] = pair.high;
      } else if (IsFloatKind(kind)) {
        *flagged |= kReset;
      }
    }
  }

  void Read(const WarpShadow& ws, const Warp& warp, MatrixType type, const int32_t* slots,
            int count) {
    const Format format = FormatOf(type);
    const int elements = format == Format::kF16 || format == Format::kBF16 ? 2 : 1;
    if (BitsOf(type) == 8) return ReadBytes(ws, warp, type, slots, count);
    depth = 4 * elements;
    exact.resize(Index(count * 8 * depth));
    flags.assign(Index(count) * 8, 0);
    for (int block = 0; block < count; ++block) {
      for (int e = 0; e < elements; ++e) {
        double values[kLanes];
        uint32_t found[kLanes] = {};
        Gather(ws, warp, slots[block], format == Format::kF64, format, e, values, nullptr, found);
        for (int lane = 0; lane < kLanes; ++lane) {
          const int at = block * 8 * depth + lane * elements + e;
          exact[Index(at)] = values[lane];
          flags[Index(block * 8 + lane / 4)] |= found[lane];
        }
      }
    }
  }
};

/// An accumulator's blocks: a lane holds two neighbours of line lane / 4.
struct Sums {
  std::vector<double> exact;  // 64 a block
  std::vector<uint32_t> flags;

  void Read(const WarpShadow& ws, const Warp& warp, MatrixType type, const int32_t* slots,
            int count) {
    const bool half = type == MatrixType::kF16;
    exact.resize(Index(count) * 64);
    flags.assign(Index(count) * 64, 0);
    for (int block = 0; block < count; ++block) {
      for (int part = 0; part < 2; ++part) {
        const int32_t slot = half ? slots[block] : slots[2 * block + part];
        double values[kLanes];
        uint32_t found[kLanes] = {};
        Gather(ws, warp, slot, type == MatrixType::kF64, FormatOf(type), half ? part : 0, values,
               nullptr, found);
        for (int lane = 0; lane < kLanes; ++lane) {
          const auto at = Index(block * 64 + 2 * lane + part);
          exact[at] = values[lane];
          flags[at] = found[lane];
        }
      }
    }
  }

  void Commit(WarpShadow& ws, const Warp& warp, MatrixType type, const int32_t* slots,
              int count) const {
    const bool half = type == MatrixType::kF16;
    const ShadowKind kind = half                       ? ShadowKind::kHalf
                            : type == MatrixType::kF64 ? ShadowKind::kDouble
                                                       : ShadowKind::kSingle;
    ShadowResult& result = *ws.result;
    result.raw = 0;
    result.planes = half ? 2 : 1;
    for (int block = 0; block < count; ++block) {
      for (int part = 0; part < 2; ++part) {
        const int plane = half ? part : 0;
        for (int lane = 0; lane < kLanes; ++lane) {
          const auto at = Index(block * 64 + 2 * lane + part);
          result.exact[plane][lane] = exact[at];
          result.state[plane][lane] = StateOf(kind, flags[at]);
        }
        if (!half) CommitShadow(ws, warp, slots[2 * block + part], kind == ShadowKind::kDouble);
      }
      if (half) CommitShadow(ws, warp, slots[block], false);
    }
  }
};

void AddProducts(const Blocks& a, const Blocks& b, int m, int n, int k, Sums& sums) {
  const int depth = a.depth;
  for (int tile = 0; tile < m * n * k; ++tile) {
    const int part = tile % k, j = tile / k % n, i = tile / k / n;
    const int of_a = i * k + part, of_b = j * k + part;
    for (int at = 0; at < 64; ++at) {
      const int row = at / 8, column = at % 8;
      const double* left = &a.exact[Index((of_a * 8 + row) * depth)];
      const double* right = &b.exact[Index((of_b * 8 + column) * depth)];
      double sum = 0;
      for (int d = 0; d < depth; ++d) sum += left[d] * right[d];
      const auto to = Index((i * n + j) * 64 + at);
      sums.exact[to] += sum;
      sums.flags[to] |= a.flags[Index(of_a * 8 + row)] | b.flags[Index(of_b * 8 + column)];
    }
  }
}

template <bool IsMasked>
const Op* ProductThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  const ProductShape shape = ProductShape::Unpack(op->flops);
  const auto m = static_cast<int>(shape.m), n = static_cast<int>(shape.n);
  const auto k = static_cast<int>(shape.k);
  const int32_t* list = ListOf(op);
  const int32_t* of_b = list + m * k;
  const int32_t* of_c = of_b + n * k;
  const int32_t* of_d = of_c + m * n * (shape.c == MatrixType::kF16 ? 1 : 2);
  Blocks a, b;
  a.Read(ws, warp, shape.a, list, m * k);
  b.Read(ws, warp, shape.b, of_b, n * k);
  Sums sums;
  sums.Read(ws, warp, shape.c, of_c, m * n);
  AddProducts(a, b, m, n, k, sums);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next != nullptr) sums.Commit(ws, warp, shape.d, of_d, m * n);
  return next;
}

/// Address of a lane, and the space that it means.
uint64_t AddressOf(const Warp& warp, const Op* op, int lane, MemorySpace* space) {
  const MemorySpace asked = AccessShape::Unpack(op->aux).space;
  const bool wide = asked == MemorySpace::kGlobal || asked == MemorySpace::kGeneric;
  uint64_t address = (wide ? At<const uint64_t>(warp, op->src[0])[lane]
                           : At<const uint32_t>(warp, op->src[0])[lane]) +
                     static_cast<uint64_t>(int64_t{op->target});
  if (!wide) address = static_cast<uint32_t>(address);
  *space = SpaceOfAddress(asked, &address);
  return address;
}

/// Cells that were loaded into a lane of a slot: those that still hold become the result's.
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

/// ldmatrix and stmatrix: 8x8 halves, a row behind each of eight lanes' addresses.
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
  const int32_t* list = ListOf(op);
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
  if (next == nullptr || shape.bits < 16) return next;  // bytes are no floats that are followed
  const uint32_t of_slot = std::min(std::max(32u, shape.bits) / shape.bits, shape.elements);
  const uint32_t granules = shape.bits / 16;
  const bool wide = shape.bits == 64;
  const int32_t* slot = ListOf(op);
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

Thunks MatrixThunks(std::string_view key) {
  if (key == "@matrixrows") return {&RowsThunk<false>, &RowsThunk<true>};
  if (key.starts_with("movmatrix")) return {&TransposeThunk<false>, &TransposeThunk<true>};
  if (key == "@fragment") return {&FragmentThunk<false>, &FragmentThunk<true>};
  return {&ProductThunk<false>, &ProductThunk<true>};
}

}  // namespace cupel::emu
