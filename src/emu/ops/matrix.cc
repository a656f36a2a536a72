// Matrix instructions that move data: ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store.
// Their accesses are checked and counted like ordinary loads and stores.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {

constexpr size_t kMostFragmentBytes = 8;  // of one access of a lane

using MatrixRow = std::array<uint16_t, 8>;
using Square = std::array<MatrixRow, 8>;  // one register of all lanes, as 16-bit elements

/// The displacement of matrix accesses is their op's target.
uint64_t RowAddress(const Warp& warp, const Op* op, int lane) {
  return LaneAddress(warp, op, AccessShape::Unpack(op->aux).space, lane, op->target);
}

/// Resolves a generic address: matrices are in shared or global memory.
MemorySpace ResolveSpace(MemorySpace space, uint64_t* address) {
  if (space != MemorySpace::kGeneric) return space;
  if (*address - kSharedWindow >= kWindowBytes) return MemorySpace::kGlobal;
  *address -= kSharedWindow;
  return MemorySpace::kShared;
}

/// Counts and checks one access of the lanes in `lanes`, before it is done. `stored`: the `bytes`
/// bytes that each lane stores; null for a load. Returns false after an error.
bool Observe(Warp& warp, const Op* op, MemorySpace space, const std::byte* stored, uint32_t lanes,
             uint32_t bytes, const uint32_t* offsets) {
  AccessKind kind;
  kind.store = stored != nullptr;
  kind.stored = stored;
  if (space == MemorySpace::kGlobal) {
    if (warp.counting) CountGlobal(warp, op, lanes, 0, offsets);
    return CheckGlobal(warp, op, kind, lanes, bytes, offsets);
  }
  if (warp.counting) CountShared(warp, op, lanes, bytes, offsets);
  return !warp.checking || CheckShared(warp, op, kind, lanes, bytes, offsets);
}

Square Transposed(const Square& in) {
  Square out;
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 8; ++j) out[j][i] = in[i][j];
  }
  return out;
}

/// aux: an AccessShape of 16-byte rows; count: hint; flops: how many matrices, with bit 8 set if
/// they are transposed. Lane 8j + r provides the address of row r of matrix j.
const Op* MatrixRows(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const AccessShape shape = AccessShape::Unpack(op->aux);
  const bool transposed = (op->flops & 8u) != 0;
  const int matrices = static_cast<int>(op->flops & 7u);
  const int32_t* list = ListOf(warp, op);
  std::array<std::byte*, kLanes> rows{};
  std::array<uint32_t, kLanes> offsets{};
  MemorySpace space = shape.space;
  for (int lane = 0; lane < 8 * matrices; ++lane) {
    uint64_t address = RowAddress(warp, op, lane);
    const uint64_t asked = address;
    space = ResolveSpace(shape.space, &address);
    if (space != MemorySpace::kShared) {  // the only space that the instruction supports
      return MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, lane, asked,
                         sizeof(MatrixRow), shape.store);
    }
    const bool quick = space == MemorySpace::kShared && address % sizeof(MatrixRow) == 0 &&
                       address + sizeof(MatrixRow) <= warp.shared_bytes;
    rows[static_cast<size_t>(lane)] =
        quick ? warp.shared + address
              : ResolveLane(warp, op, space, lane, address, sizeof(MatrixRow), shape.store);
    if (rows[static_cast<size_t>(lane)] == nullptr) return nullptr;
    offsets[static_cast<size_t>(lane)] = static_cast<uint32_t>(address);
  }
  std::array<Square, 4> squares;
  if (shape.store) {
    for (int j = 0; j < matrices; ++j) {
      Square& square = squares[static_cast<size_t>(j)];
      std::memcpy(square.data(), warp.frame + list[j], sizeof square);
      if (transposed) square = Transposed(square);
    }
  }
  const auto* stored = shape.store ? reinterpret_cast<const std::byte*>(squares.data()) : nullptr;
  const uint32_t lanes = matrices == 4 ? kFullMask : (1u << (8 * matrices)) - 1;
  if ((warp.counting || warp.checking) &&
      !Observe(warp, op, space, stored, lanes, sizeof(MatrixRow), offsets.data())) {
    return nullptr;
  }
  for (int j = 0; j < matrices; ++j) {
    Square& square = squares[static_cast<size_t>(j)];
    for (size_t i = 0; i < 8; ++i) {
      std::byte* row = rows[static_cast<size_t>(8 * j) + i];
      if (shape.store) {
        std::memcpy(row, square[i].data(), sizeof(MatrixRow));
      } else {
        std::memcpy(square[i].data(), row, sizeof(MatrixRow));
      }
    }
    if (shape.store) continue;
    if (transposed) square = Transposed(square);
    std::memcpy(warp.frame + list[j], square.data(), sizeof square);
  }
  return op + 1;
}

/// src[0]: metadata; flops: a SparseShape.
const Op* ExpandSparse(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  constexpr uint32_t kLine = 16;  // bytes of a line in a block
  const SparseShape shape = SparseShape::Unpack(op->flops);
  const auto* words = At<const uint32_t>(warp, op->src[0]);
  const int32_t* sparse = ListOf(warp, op);
  const int32_t* dense = sparse + 2 * shape.columns;
  for (uint32_t block = 0; block < 2 * shape.columns; ++block) {
    for (uint32_t line = 0; line < 8; ++line) {
      const std::byte* from = warp.frame + sparse[block] + line * kLine;
      const uint32_t metadata =
          shape.MetadataOf(words, block / shape.columns * 8 + line, block % shape.columns);
      std::array<std::byte, 2 * kLine> expanded{};
      const std::array<std::byte, kLine> none{};
      for (uint32_t at = 0; at < kLine; at += 2 * shape.unit) {
        const uint32_t pair = metadata >> (2 * at / shape.unit) & 15u;
        const uint32_t first = pair & 3u, second = pair >> 2;
        const bool is_valid = shape.is_paired
                                  ? pair == 4 || pair == 14
                                  : first < second || (first > second && !shape.is_ordered);
        if (!is_valid && std::memcmp(from + at, none.data(), 2 * shape.unit) != 0) {
          return Fault(
              warp, op, "invalid_metadata",
              "The metadata of a sparse matrix has a pair of indices that PTX leaves "
              "undefined: they must be different and in ascending order (for tf32 0 and 1, "
              "or 2 and 3).",
              static_cast<int>(line * 4));
        }
        std::byte* to = expanded.data() + 2 * at;
        std::memcpy(to + first * shape.unit, from + at, shape.unit);
        std::memcpy(to + second * shape.unit, from + at + shape.unit, shape.unit);
      }
      for (uint32_t half = 0; half < 2; ++half) {
        std::memcpy(warp.frame + dense[2 * block + half] + line * kLine,
                    expanded.data() + half * kLine, kLine);
      }
    }
  }
  return op + 1;
}

const Op* MoveMatrix(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  Square square;
  std::memcpy(square.data(), warp.frame + op->src[0], sizeof square);
  square = Transposed(square);
  std::memcpy(warp.frame + op->dst, square.data(), sizeof square);
  return op + 1;
}

/// The access of one instruction to a fragment in memory, register by register.
class FragmentAccess {
 public:
  FragmentAccess(Warp& warp, const Op* op)
      : warp_(warp),
        op_(op),
        shape_(FragmentShape::Unpack(op->flops)),
        access_(AccessShape::Unpack(op->aux)) {
    address_ = RowAddress(warp, op, 0);
    space_ = ResolveSpace(access_.space, &address_);
    stride_ = At<const uint32_t>(warp, op->src[1])[0];
    const uint32_t of_slot = std::max(32u, shape_.bits) / shape_.bits;
    slot_elements_ = std::min(of_slot, shape_.elements);
  }

  const Op* Run() {
    host_ = WholeMatrix();
    const int32_t* slot = ListOf(warp_, op_);
    for (uint32_t line = 0; line < shape_.lines; ++line) {
      for (uint32_t column = 0; column < shape_.columns; ++column) {
        for (uint32_t e = 0; e < shape_.elements; e += slot_elements_) {
          if (!Register(*slot++, line, column, e)) return nullptr;
        }
      }
    }
    return op_ + 1;
  }

 private:
  /// Offset in bytes of a lane's element `e` in a block.
  uint64_t OffsetOf(uint32_t line_block, uint32_t column_block, uint32_t lane, uint32_t e) const {
    const uint64_t line = line_block * 8 + lane / 4;
    const uint64_t column = (column_block * 4 + lane % 4) * shape_.elements + e;
    const uint64_t elements = shape_.contiguous ? line * stride_ + column : column * stride_ + line;
    return elements * shape_.bits / 8;
  }

  /// The host address of the whole matrix if all of it is in one piece of memory, else null.
  std::byte* WholeMatrix() {
    const uint64_t bytes =
        OffsetOf(shape_.lines - 1, shape_.columns - 1, kLanes - 1, shape_.elements - 1) +
        shape_.bytes();
    const uint32_t width =
        shape_.contiguous ? slot_elements_ * shape_.bits / 8 : shape_.bytes();  // of an access
    if (address_ % width != 0 || uint64_t{stride_} * shape_.bits / 8 % width != 0) return nullptr;
    if (space_ == MemorySpace::kShared) {
      const bool inside = bytes <= warp_.shared_bytes && address_ <= warp_.shared_bytes - bytes;
      return inside ? warp_.shared + address_ : nullptr;
    }
    Hint& hint = warp_.hints[op_->count];
    auto inside = [&] {
      return address_ >= hint.begin && address_ < hint.end && bytes <= hint.end - address_;
    };
    if (!inside() && (!FindAllocation(warp_, address_, access_.store, hint) || !inside())) {
      return nullptr;
    }
    return warp_.worker->launch->memory->Host(address_);
  }

  bool Register(int32_t slot, uint32_t line, uint32_t column, uint32_t e) {
    const uint32_t bytes =
        shape_.contiguous ? slot_elements_ * shape_.bits / 8 : shape_.bytes();  // at a time
    const uint32_t width = shape_.bits == 64 ? 8 : 4;                           // of the slot
    const uint32_t step = shape_.contiguous ? slot_elements_ : 1;
    for (uint32_t part = 0; part < slot_elements_; part += step) {
      std::array<uint32_t, kLanes> offsets{};
      std::array<std::byte*, kLanes> memory{};
      std::array<std::byte, size_t{kLanes} * kMostFragmentBytes> cells;
      const auto cell = [&](uint32_t lane) {
        return warp_.frame + slot + lane * width + part * shape_.bytes();
      };
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const uint64_t offset = OffsetOf(line, column, lane, e + part);
        offsets[lane] = static_cast<uint32_t>(address_ + offset);
        memory[lane] = host_ != nullptr ? host_ + offset
                                        : ResolveLane(warp_, op_, space_, static_cast<int>(lane),
                                                      address_ + offset, bytes, access_.store);
        if (memory[lane] == nullptr) return false;
        if (access_.store) std::memcpy(cells.data() + size_t{lane} * bytes, cell(lane), bytes);
      }
      if ((warp_.counting || warp_.checking) &&
          !Observe(warp_, op_, space_, access_.store ? cells.data() : nullptr, kFullMask, bytes,
                   offsets.data())) {
        return false;
      }
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        std::byte* const from = access_.store ? cell(lane) : memory[lane];
        std::memcpy(access_.store ? memory[lane] : cell(lane), from, bytes);
      }
    }
    return true;
  }

  Warp& warp_;
  const Op* op_;
  FragmentShape shape_;
  AccessShape access_;
  MemorySpace space_ = MemorySpace::kGlobal;
  uint64_t address_ = 0;
  uint32_t stride_ = 0;         // in elements
  uint32_t slot_elements_ = 1;  // elements of one lane in one slot
  std::byte* host_ = nullptr;   // null: resolve every access
};

const Op* AccessFragment(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  return FragmentAccess(warp, op).Run();
}

}  // namespace

bool AllTogether(Warp& warp, const Op* op) {
  if ((~warp.active & warp.live) != 0 && !CollectLanes(warp, op, kFullMask)) return false;
  if (warp.active == kFullMask) return true;
  Fault(warp, op, "inactive_lanes",
        "All 32 lanes of a warp must execute this instruction together: some have exited, took "
        "another branch, or do not exist.");
  return false;
}

void RegisterMatrixMoves(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@matrixrows", &MatrixRows);
  add("@mma.expand", &ExpandSparse);
  add("@fragment", &AccessFragment);
  Entry move;
  move.full = move.masked = &MoveMatrix;
  move.dst = move.src[0] = SlotKind::kWord;
  table.Add("movmatrix.sync.aligned.m8n8.trans.b16", move);
}

}  // namespace cupel::emu
