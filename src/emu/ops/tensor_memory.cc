// tcgen05: allocates tensor memory, and moves data between it and registers or shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/tensor_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/cluster.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/ops/tensor_operands.h"
#include "emu/sync/async.h"
#include "emu/sync/barriers.h"
#include "emu/sync/tensor_memory.h"

namespace cupel::emu {
namespace {

TensorMemory& TensorOf(Warp& warp) { return AsyncOf(warp).TensorOf(warp); }

/// The value that all lanes must pass. Returns nothing after an error.
std::optional<uint32_t> Uniform(Warp& warp, const Op* op, int32_t slot) {
  const auto* values = At<const uint32_t>(warp, slot);
  for (int lane = 1; lane < kLanes; ++lane) {
    if (values[lane] == values[0]) continue;
    Fault(warp, op, "illegal_instruction",
          fmt::format("Lanes 0 and {} pass different operands ({:#x} and {:#x}). All lanes must "
                      "pass the same.",
                      lane, values[0], values[lane]),
          lane);
    return std::nullopt;
  }
  return values[0];
}

/// Where alloc writes the address; nothing after an error.
std::optional<SharedPlace> AllocationPlace(Warp& warp, const Op* op) {
  uint64_t address = 0;
  if ((op->aux & kMbarrierGeneric) != 0) {
    address = At<const uint64_t>(warp, op->src[0])[0] + static_cast<uint64_t>(int64_t{op->target}) -
              kSharedWindow;
  } else {
    address = At<const uint32_t>(warp, op->src[0])[0] + static_cast<uint32_t>(op->target);
  }
  const auto low = static_cast<uint32_t>(std::min<uint64_t>(address, UINT32_MAX));
  SharedPlace place;
  if (!FindSharedBytes(warp, op, 0, low, sizeof(uint32_t), sizeof(uint32_t), true, &place)) {
    return std::nullopt;
  }
  if (place.block == warp.block) return place;
  MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, 0, low, sizeof(uint32_t),
              true);
  return std::nullopt;
}

/// src: where to write the address, number of columns; target: displacement; aux: as of an
/// mbarrier.
const Op* AllocateTensor(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const auto columns = Uniform(warp, op, op->src[1]);
  if (!columns) return nullptr;
  if (*columns < kLeastTensorColumns || *columns > kTensorColumns ||
      (*columns & (*columns - 1)) != 0) {
    return Fault(warp, op, "tensor_allocation",
                 fmt::format("The number of columns of tensor memory must be a power of two from "
                             "32 to 512; it is {}.",
                             *columns));
  }
  TensorMemory& memory = TensorOf(warp);
  if (!memory.may_allocate()) {
    return Fault(warp, op, "tensor_allocation",
                 "The block allocates tensor memory after tcgen05.relinquish_alloc_permit.");
  }
  const auto place = AllocationPlace(warp, op);
  if (!place) return nullptr;
  const auto first = memory.Allocate(warp, op, *columns);
  if (!first) return WaitAtBarrier(warp, op, kTensorBarrier);
  if (warp.checking && !CheckShared(warp, op, true, false, 1, sizeof(uint32_t), &place->offset)) {
    return nullptr;
  }
  std::memcpy(warp.shared + place->offset, &*first, sizeof *first);
  return op + 1;
}

/// src: address, number of columns
const Op* FreeTensor(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const auto address = Uniform(warp, op, op->src[0]), columns = Uniform(warp, op, op->src[1]);
  if (!address || !columns) return nullptr;
  return TensorOf(warp).Free(warp, op, *address, *columns) ? op + 1 : nullptr;
}

const Op* Relinquish(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  TensorOf(warp).Relinquish();
  return op + 1;
}

/// The first cell that a warp accesses. A warp reaches only a quarter of the lanes.
std::optional<TensorCell> FirstCell(Warp& warp, const Op* op, const TensorAccess& access) {
  const auto address = Uniform(warp, op, op->src[0]);
  if (!address) return std::nullopt;
  const TensorCell cell = TensorAddress(*address);
  const uint32_t quarter = warp.index % 4 * 32;
  if (cell.lane == quarter || (access.lanes() == 16 && cell.lane == quarter + 16)) return cell;
  Fault(warp, op, "out_of_bounds",
        fmt::format("The address names lane {} of tensor memory. Warp {} of the block can access "
                    "only lanes {} to {}, from lane {}{} on.",
                    cell.lane, warp.index, quarter, quarter + 31, quarter,
                    access.lanes() == 16 ? fmt::format(" or {}", quarter + 16) : ""));
  return std::nullopt;
}

/// src[0]: the address; the list has the registers; flops: a TensorAccess; aux: distance of the
/// second part of .16x32bx2.
template <bool IsStore>
const Op* MoveTensor(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const TensorAccess access = TensorAccess::Unpack(op->flops);
  const auto first = FirstCell(warp, op, access);
  if (!first) return nullptr;
  TensorMemory& memory = TensorOf(warp);
  memory.Issue(warp, op, 0, IsStore ? TensorCompletion::kStoreWait : TensorCompletion::kLoadWait);
  TensorRegion region;
  region.groups = (access.lanes() == 32 ? 3u : 1u) << first->lane / 16;
  region.first = first->column;
  region.columns = access.columns();
  for (int part = 0; part < (access.shape == TensorShape::k16x32bx2 ? 2 : 1); ++part) {
    if (IsStore ? !memory.Write(warp, region) : !memory.Read(warp, region)) return nullptr;
    region.first += op->aux;
  }
  const int32_t* slots = ListOf(warp, op);
  for (uint32_t r = 0; r < access.registers; ++r) {
    auto* values = At<uint32_t>(warp, slots[r]);
    for (uint32_t t = 0; t < kLanes; ++t) {
      const TensorCell at = access.CellOf(t, r, op->aux);
      uint32_t* cell = memory.Column(first->column + at.column) + first->lane + at.lane;
      uint32_t* next = cell + kTensorLanes;
      if (IsStore) {
        *cell = access.packs ? values[t] & 0xffffu : values[t];
        if (access.packs) *next = values[t] >> 16;
      } else {
        values[t] = access.packs ? (*cell & 0xffffu) | *next << 16 : *cell;
      }
    }
  }
  return op + 1;
}

const Op* WaitForTensors(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  TensorOf(warp).Wait(warp, (op->aux & kTensorStores) != 0 ? TensorCompletion::kStoreWait
                                                           : TensorCompletion::kLoadWait);
  return op + 1;
}

const Op* FenceTensors(Warp& warp, const Op* op) {
  // fence::before_thread_sync only keeps the order of instructions, which do not move here.
  if ((op->aux & kTensorAfterThreadSync) != 0) TensorOf(warp).Fence(warp);
  return op + 1;
}

/// The lines and bytes of a line that a copy reads.
TensorMatrix SourceOf(TensorCopyShape shape) {
  TensorMatrix matrix;
  matrix.line_bytes =
      shape == TensorCopyShape::k128x256b || shape == TensorCopyShape::k4x256b ? 32 : 16;
  switch (shape) {
    case TensorCopyShape::k128x256b:
    case TensorCopyShape::k128x128b:
      matrix.lines = 128;
      break;
    case TensorCopyShape::k4x256b:
      matrix.lines = 4;
      break;
    case TensorCopyShape::k64x128b0213:
    case TensorCopyShape::k64x128b0123:
      matrix.lines = 64;
      break;
    case TensorCopyShape::k32x128b:
      matrix.lines = 32;
      break;
  }
  return matrix;
}

/// The line of the source that lane `lane` gets; -1: none. `first` is the lane of the address.
int LineFor(TensorCopyShape shape, uint32_t lane, uint32_t first) {
  switch (shape) {
    case TensorCopyShape::k128x256b:
    case TensorCopyShape::k128x128b:
      return static_cast<int>(lane);
    case TensorCopyShape::k4x256b:
      return lane % 32 == first ? static_cast<int>(lane / 32) : -1;
    case TensorCopyShape::k64x128b0213:
      return static_cast<int>(lane % 64);
    case TensorCopyShape::k64x128b0123:
      return static_cast<int>(lane / 64 * 32 + lane % 32);
    case TensorCopyShape::k32x128b:
      return static_cast<int>(lane % 32);
  }
  return -1;
}

/// src: address, matrix descriptor; aux: a TensorCopyShape
bool CopyToTensor(const Issued& issued) {
  Warp& warp = issued.warp;
  const auto shape = static_cast<TensorCopyShape>(issued.op->aux);
  const TensorCell to = TensorAddress(At<const uint32_t>(warp, issued.op->src[0])[issued.lane]);
  const uint64_t bits = At<const uint64_t>(warp, issued.op->src[1])[issued.lane];
  const bool is_short = shape == TensorCopyShape::k4x256b;
  if (to.lane >= (is_short ? 32u : 1u)) {
    return issued.Illegal(
        fmt::format("The copy must start at {} of tensor memory. Its address "
                    "names lane {}.",
                    is_short ? "one of the lanes 0 to 31" : "lane 0", to.lane));
  }
  TensorMatrix matrix = SourceOf(shape);
  if (!ReadDescriptor(issued, bits, &matrix.matrix)) return false;
  if (matrix.matrix.atom == MatrixDescriptor::kLargerAtom) {
    return issued.Unsupported("tcgen05.cp with the swizzling mode with atoms of 32 bytes");
  }
  if (!CheckMatrix(issued, matrix)) return false;
  TensorMemory& memory = issued.memory;
  memory.Issue(warp, issued.op, issued.lane, TensorCompletion::kCommit);
  const uint32_t words = matrix.line_bytes / 4;
  const uint32_t groups = is_short ? 0x55u << to.lane / 16 : 0xffu;
  if (!memory.Write(warp, {groups, to.column, words})) return false;
  if (warp.checking) memory.ReadsShared(warp, {matrix});
  for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
    const int line = LineFor(shape, lane, to.lane);
    if (line < 0) continue;
    for (uint32_t word = 0; word < words; ++word) {
      std::memcpy(memory.Column(to.column + word) + lane,
                  warp.shared + matrix.matrix.OfLines(static_cast<uint32_t>(line), word * 4), 4);
    }
  }
  return true;
}

}  // namespace

void RegisterTensorMemory(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@tcgen05.alloc", &AllocateTensor);
  add("@tcgen05.dealloc", &FreeTensor);
  add("@tcgen05.relinquish", &Relinquish);
  add("@tcgen05.ld", &MoveTensor<false>);
  add("@tcgen05.st", &MoveTensor<true>);
  add("@tcgen05.cp", &ForEachThread<&CopyToTensor>);
  add("@tcgen05.wait", &WaitForTensors);
  add("@tcgen05.fence", &FenceTensors);
}

}  // namespace cupel::emu
