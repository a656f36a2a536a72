// Shadows through atomics, in lane order, as the op applies them. Exchanges and compare-and-swap
// move shadows, so loops that add floats by integer CAS keep them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emu/core/cluster.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/shadow/lanes.h"
#include "emu/shadow/order.h"
#include "emu/shadow/place.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// One lane's access: the location, and the values of memory and operands before the op.
struct Part {
  MemorySpace space = MemorySpace::kGlobal;
  uint64_t address = 0;
  uint64_t operand = 0, second = 0;
  Cell operand_cells[4] = {}, second_cells[4] = {};
  Cell old_cells[4] = {};  // for the lane's result register
};

/// A memory location that the warp accesses: bits and cells as lanes update them.
struct Location {
  uint64_t key = 0;
  uint64_t bits = 0;
  Cell cells[4] = {};
  int lane = 0;  // a lane that accesses it
};

struct AtomicShape {
  int bytes = 4, granules = 2;
  bool wide = false;
  uint64_t mask = 0xffffffffu;
};

AtomicShape ShapeOf(const AccessShape& access) {
  AtomicShape shape;
  shape.bytes = static_cast<int>(access.element_bytes);
  shape.granules = std::max(1, shape.bytes / 2);
  shape.wide = shape.bytes == 8;
  shape.mask = shape.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * shape.bytes)) - 1;
  return shape;
}

std::byte* HostOf(const Warp& warp, const Part& part, int bytes) {
  if (part.space == MemorySpace::kShared) {
    const SharedPlace place = FindShared(*warp.block, part.address);
    const uint64_t end = place.offset + static_cast<uint64_t>(bytes);
    if (place.block == nullptr || end > warp.shared_bytes) return nullptr;
    return place.block->memory + place.offset;
  }
  if (part.space != MemorySpace::kGlobal) return nullptr;
  const GlobalMemory& memory = *warp.worker->launch->memory;
  return memory.Contains(part.address, static_cast<uint64_t>(bytes)) ? memory.Host(part.address)
                                                                     : nullptr;
}

/// memory += operand, in exact arithmetic. The bits follow after the op has run.
void AddFloats(const Field* field, const Side& side, const AtomicShape& shape, Part& part,
               Location& at) {
  const DType dtype = DTypeOf(side.format);
  const int step = std::max(1, SizeOf(dtype) / 2);
  Cell sums[4] = {};
  for (int g = 0; g < shape.granules; g += step) {
    const Shadow a = DecodeShadow(field, dtype, at.bits, at.cells, shape.granules, g);
    const Shadow b =
        DecodeShadow(field, dtype, part.operand, part.operand_cells, shape.granules, g);
    const ShadowKind kind = dtype == DType::kF64    ? ShadowKind::kDouble
                            : dtype == DType::kF16  ? ShadowKind::kHalf
                            : dtype == DType::kBF16 ? ShadowKind::kBrain
                                                    : ShadowKind::kSingle;
    const double sum = field == nullptr ? a.exact + b.exact : field->Add(a.exact, b.exact);
    sums[g] = {sum, 0, StateOf(kind, a.flags | b.flags)};
  }
  std::copy(sums, sums + 4, at.cells);
}

/// Compares as signed or unsigned numbers of `bytes` bytes.
bool Less(uint64_t a, uint64_t b, const Side& side, int bytes) {
  const int unused = 64 - 8 * bytes;
  if (!side.is_signed) return a < b;
  return static_cast<int64_t>(a << unused) < static_cast<int64_t>(b << unused);
}

bool HasShadow(const Cell (&cells)[4], const AtomicShape& shape) {
  return std::any_of(cells, cells + shape.granules, [](const Cell& c) { return c.state != 0; });
}

void Apply(const Field* field, const Side& side, const AtomicShape& shape, Part& part,
           Location& at) {
  std::copy(at.cells, at.cells + 4, part.old_cells);
  bool take = false;
  const bool in_doubt =
      field == nullptr && (side.detail == '<' || side.detail == '>') &&
      OrderInDoubt(at.cells, at.bits, part.operand_cells, part.operand, shape.granules);
  switch (side.detail) {
    case '+':
      return AddFloats(field, side, shape, part, at);
    case 'x':
      take = true;
      break;
    case 'c':
      if (at.bits == part.operand) {
        at.bits = part.second;
        std::copy(part.second_cells, part.second_cells + 4, at.cells);
      }
      return;
    case '<':
      take = Less(part.operand, at.bits, side, shape.bytes);
      break;
    case '>':
      take = Less(at.bits, part.operand, side, shape.bytes);
      break;
    case 'o':
      if (part.operand == 0 && !HasShadow(part.operand_cells, shape)) return;
      take = at.bits == 0 && !HasShadow(at.cells, shape);
      if (take) break;
      [[fallthrough]];
    default: {  // integers keep the flags of their operands
      uint32_t flags = 0;
      for (const auto* cells : {at.cells, part.operand_cells}) {
        for (int g = 0; g < shape.granules; ++g) {
          if (cells[g].state != 0) flags |= (cells[g].state & kFlags) | kReset;
        }
      }
      for (Cell& cell : at.cells) cell = {};
      if (flags == 0) return;
      at.cells[0].state = StateOf(shape.wide ? ShadowKind::kLong : ShadowKind::kWord, flags);
      return;
    }
  }
  if (take) {
    at.bits = part.operand;
    std::copy(part.operand_cells, part.operand_cells + 4, at.cells);
  }
  for (Cell& cell : at.cells) {
    if (in_doubt && cell.state != 0) cell.state |= kDecision;
  }
}

class AtomicShadows {
 public:
  AtomicShadows(WarpShadow& ws, Warp& warp, const Op* op, const Side& side)
      : ws_(ws),
        warp_(warp),
        op_(op),
        side_(side),
        access_(AccessShape::Unpack(op->aux)),
        shape_(ShapeOf(access_)) {}

  /// Before the op: reads operands and locations, and computes the new shadows.
  void Prepare() {
    DoubtPlaces(ws_, warp_, op_, access_);
    const bool wide =
        access_.space == MemorySpace::kGlobal || access_.space == MemorySpace::kGeneric;
    for (uint32_t rest = warp_.active; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      Part& part = parts_[i];
      part.address = (wide ? At<const uint64_t>(warp_, op_->src[0])[i]
                           : At<const uint32_t>(warp_, op_->src[0])[i]) +
                     static_cast<uint64_t>(op_->imm);
      if (!wide) part.address = static_cast<uint32_t>(part.address);
      part.space = SpaceOfAddress(access_.space, &part.address);
      ReadOperand(op_->src[1], i, &part.operand, part.operand_cells);
      if (op_->src[2] >= 0) ReadOperand(op_->src[2], i, &part.second, part.second_cells);
      Location* at = Find(part, i);
      if (at != nullptr) Apply(ws_.field, side_, shape_, part, *at);
    }
  }

  /// After the op: ties all shadows to the new bits.
  void Finish() {
    for (int k = 0; k < count_; ++k) {
      Location& at = locations_[k];
      const Part& part = parts_[at.lane];
      const std::byte* host = HostOf(warp_, part, shape_.bytes);
      if (host == nullptr) continue;
      uint64_t bits = 0;
      std::memcpy(&bits, host, static_cast<size_t>(shape_.bytes));
      if (part.space == MemorySpace::kGlobal) {
        ws_.memory->Touch(part.address, static_cast<uint64_t>(shape_.bytes));
      }
      for (int g = 0; g < shape_.granules; ++g) {
        Cell& cell = at.cells[g];
        cell.state = Stamped(ws_, cell.state);
        if (cell.state != 0) cell.bits = TiedBits(KindOf(cell.state), bits, g);
        if (Cell* to = CellForStore(ws_, part.space, at.lane,
                                    part.address + 2 * static_cast<uint64_t>(g))) {
          *to = cell;
        }
      }
    }
    if (op_->dst < 0) return;
    ShadowResult& result = *ws_.result;
    result.planes = shape_.granules;
    result.raw = 0;
    for (uint32_t rest = warp_.active; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      for (int g = 0; g < shape_.granules; ++g) {
        result.exact[g][i] = parts_[i].old_cells[g].exact;
        result.state[g][i] = parts_[i].old_cells[g].state;
      }
    }
    CommitShadow(ws_, warp_, op_->dst, shape_.wide);
  }

 private:
  void ReadOperand(int32_t slot, int lane, uint64_t* bits, Cell (&cells)[4]) const {
    *bits = SlotBits(warp_, slot, shape_.wide, lane) & shape_.mask;
    ReadCells(ws_, warp_, slot, shape_.wide, lane, cells);
    for (int g = 0; g < shape_.granules; ++g) {
      if (GranulesOf(KindOf(cells[g].state)) > shape_.granules - g) {
        const uint32_t flags = (cells[g].state & kFlags) | kReset;
        cells[g] = {0, TiedBits(ShadowKind::kShort, *bits, g),
                    Stamped(ws_, StateOf(ShadowKind::kShort, flags))};
      }
    }
    FlagHistory(ws_, lane, *bits, shape_.granules, cells);
  }

  Location* Find(const Part& part, int lane) {
    const uint64_t key = part.address ^ (static_cast<uint64_t>(part.space) << 60);
    for (int k = 0; k < count_; ++k) {
      if (locations_[k].key == key) return &locations_[k];
    }
    const std::byte* host = HostOf(warp_, part, shape_.bytes);
    if (host == nullptr) return nullptr;
    Location& at = locations_[count_++];
    at = Location{};
    at.key = key;
    at.lane = lane;
    std::memcpy(&at.bits, host, static_cast<size_t>(shape_.bytes));
    for (int g = 0; g < shape_.granules; ++g) {
      const Cell* cell = CellAt(ws_, part.space, lane, part.address + 2 * static_cast<uint64_t>(g));
      if (cell != nullptr) at.cells[g] = *cell;
    }
    DropStale(at.bits, at.cells, shape_.granules);
    return &at;
  }

  WarpShadow& ws_;
  Warp& warp_;
  const Op* op_;
  const Side& side_;
  AccessShape access_;
  AtomicShape shape_;
  Part parts_[kLanes];
  Location locations_[kLanes];
  int count_ = 0;
};

template <bool IsMasked>
const Op* AtomicThunk(Warp& warp, const Op* op) {
  WarpShadow& ws = *warp.shadow;
  ws.op = op;
  const Side& side = ws.sides[op - warp.code];
  AtomicShadows shadows(ws, warp, op, side);
  shadows.Prepare();
  const Op* next = (IsMasked ? side.masked : side.full)(warp, op);
  if (next == nullptr) return nullptr;
  shadows.Finish();
  return next;
}

}  // namespace

Thunks AtomicThunks() { return {&AtomicThunk<false>, &AtomicThunk<true>}; }

}  // namespace cupel::emu
