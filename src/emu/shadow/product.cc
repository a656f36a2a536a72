// Shadows through matrix products of floats: dot products of the operands' shadows (matrix.h has
// the layouts).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/shadow/shadow.h"
#include "emu/shadow/small.h"

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
  std::vector<uint32_t> flags;  // 8 per block
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
        SmallPair pair = UnpackPair(cells[g].exact);
        for (int at = 0; at < 2; ++at) {
          double& exact = to[2 * g + at];
          const Shadow half = HalfOf(HalfAt(pair, static_cast<uint64_t>(at)), exact, 0);
          exact = half.exact;
          *flagged |= half.flags;
        }
      } else if (IsFloatKind(kind)) {
        *flagged |= kReset;
      }
    }
  }

  void Read(const WarpShadow& ws, const Warp& warp, MatrixType type, const int32_t* slots,
            int count) {
    const Format format = FormatOf(type);
    const int elements = format == Format::kF16 || format == Format::kBF16 ? 2 : 1;
    if (BitsOf(type) == 8) {
      ReadBytes(ws, warp, type, slots, count);
      if (ws.field != nullptr) std::fill(flags.begin(), flags.end(), kReset);  // not followed
      return;
    }
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

/// An accumulator's blocks: a lane has two neighbouring elements of line lane / 4.
struct Sums {
  std::vector<double> exact;  // 64 per block
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

/// sum + the dot product
double AddDot(const double* a, const double* b, int depth, double sum) {
  double product = 0;
  for (int d = 0; d < depth; ++d) product += a[d] * b[d];
  return sum + product;
}

void AddProducts(const Field* field, const Blocks& a, const Blocks& b, int m, int n, int k,
                 Sums& sums) {
  const int depth = a.depth;
  Field::Vectors left, right;
  if (field != nullptr) {
    left = field->Unpacked(a.exact, depth);
    right = field->Unpacked(b.exact, depth);
  }
  for (int tile = 0; tile < m * n * k; ++tile) {
    const int part = tile % k, j = tile / k % n, i = tile / k / n;
    const int of_a = i * k + part, of_b = j * k + part;
    for (int at = 0; at < 64; ++at) {
      const int row = of_a * 8 + at / 8, column = of_b * 8 + at % 8;
      const auto to = Index((i * n + j) * 64 + at);
      double& sum = sums.exact[to];
      sum = field != nullptr
                ? field->AddDot(left, Index(row), right, Index(column), sum)
                : AddDot(&a.exact[Index(row * depth)], &b.exact[Index(column * depth)], depth, sum);
      sums.flags[to] |= a.flags[Index(row)] | b.flags[Index(column)];
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
  const int32_t* list = ListOf(warp, op);
  const int32_t* of_b = list + m * k;
  const int32_t* of_c = of_b + n * k;
  const int32_t* of_d = of_c + m * n * (shape.c == MatrixType::kF16 ? 1 : 2);
  Blocks a, b;
  a.Read(ws, warp, shape.a, list, m * k);
  b.Read(ws, warp, shape.b, of_b, n * k);
  Sums sums;
  sums.Read(ws, warp, shape.c, of_c, m * n);
  AddProducts(ws.field, a, b, m, n, k, sums);
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next != nullptr) sums.Commit(ws, warp, shape.d, of_d, m * n);
  return next;
}

}  // namespace

Thunks ProductThunks() { return {&ProductThunk<false>, &ProductThunk<true>}; }

}  // namespace cupel::emu
