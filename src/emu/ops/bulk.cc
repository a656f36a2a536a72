// Bulk copies and their tensor forms. See async.h for when copies happen.
// SPDX-License-Identifier: Apache-2.0
#include "emu/ops/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/bulk.h"
#include "emu/core/cluster.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/ops/tensor_map.h"
#include "emu/sync/async.h"
#include "emu/sync/tensor_box.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kPieceBytes = 16;

bool Has(const Warp& warp, const Op* op, size_t operand) { return ListOf(warp, op)[operand] >= 0; }
uint32_t Word(const Warp& warp, const Op* op, size_t operand, int lane) {
  return At<const uint32_t>(warp, ListOf(warp, op)[operand])[lane];
}
uint64_t Double(const Warp& warp, const Op* op, size_t operand, int lane) {
  return At<const uint64_t>(warp, ListOf(warp, op)[operand])[lane];
}

/// The blocks of the cluster that a multicast names, by rank.
uint32_t Mask(const Warp& warp, const Op* op, int lane) {
  return Word(warp, op, kBulkMask, lane) & 0xffffu;
}

/// Host address of bytes in global memory, or null after an error.
std::byte* GlobalRange(Warp& warp, const Op* op, int lane, uint64_t address, uint32_t bytes,
                       bool store) {
  const GlobalMemory& memory = *warp.worker->launch->memory;
  if (!memory.Contains(address, bytes)) {
    MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kGlobal, lane, address, bytes,
                store);
    return nullptr;
  }
  return ResolveLane(warp, op, MemorySpace::kGlobal, lane, address, 1, store);
}

/// Fills in the runs of a copy of contiguous bytes. Returns false after an error.
bool AddBytes(Warp& warp, const Op* op, int lane, const BulkShape& shape, BulkCopy* copy) {
  const uint32_t bytes = Word(warp, op, kBulkBytes, lane);
  if (bytes % kPieceBytes != 0) {
    Fault(warp, op, "misaligned", "The size of a bulk copy must be a multiple of 16 bytes.", lane);
    return false;
  }
  if (bytes == 0) return true;
  std::array<std::byte*, 2> host{};
  for (const size_t operand : {kBulkTo, kBulkFrom}) {
    const bool store = operand == kBulkTo;
    const bool is_shared = store ? shape.to_shared : shape.from_shared;
    if (is_shared) {
      SharedPlace place;
      if (!FindSharedBytes(warp, op, lane, Word(warp, op, operand, lane), bytes, kPieceBytes, store,
                           &place)) {
        return false;
      }
      (store ? copy->target : copy->source) = place.block;
      host[operand] = place.block->memory + place.offset;
    } else {
      const uint64_t address = Double(warp, op, operand, lane);
      if (address % kPieceBytes != 0) {
        MemoryFault(warp, op, FaultKind::kMisaligned, MemorySpace::kGlobal, lane, address,
                    kPieceBytes, store);
        return false;
      }
      host[operand] = GlobalRange(warp, op, lane, address, bytes, store);
    }
    if (host[operand] == nullptr) return false;
  }
  copy->runs.push_back({host[kBulkTo], host[kBulkFrom], bytes});
  return true;
}

/// The tensor map that a lane names; nothing after an error.
std::optional<plan::EncodedTensorMap> MapOf(Warp& warp, const Op* op, int lane, uint64_t address) {
  const std::byte* bytes = MapBytes(warp, op, MemorySpace::kGeneric, lane, address, false);
  if (bytes == nullptr) return std::nullopt;
  if (warp.checking && warp.worker->launch->changed_maps.IsHidden(address)) {
    Fault(warp, op, "missing_proxy_fence",
          "This copy may use an old version of its tensor map, which the kernel has changed: after "
          "the change, a release and then a fence.proxy.tensormap::generic.acquire of the map are "
          "missing.",
          lane);
    return std::nullopt;
  }
  std::string_view problem;
  std::optional<plan::EncodedTensorMap> map =
      plan::DecodeTensorMap({bytes, plan::kTensorMapBytes}, &problem);
  if (!map) {
    Fault(warp, op, "illegal_instruction",
          fmt::format("A tensor copy uses an invalid tensor map: {}.", problem), lane);
    return std::nullopt;
  }
  if (const uint32_t alignment = plan::AlignmentOf(map->map); map->address % alignment != 0) {
    MemoryFault(warp, op, FaultKind::kMisaligned, MemorySpace::kGlobal, lane, map->address,
                alignment, false);
    return std::nullopt;
  }
  return map;
}

ReductionType ReductionTypeOf(plan::TensorMapType type) {
  switch (type) {
    case plan::TensorMapType::kS32:
      return ReductionType::kS32;
    case plan::TensorMapType::kU64:
      return ReductionType::kU64;
    case plan::TensorMapType::kS64:
      return ReductionType::kS64;
    case plan::TensorMapType::kF16:
      return ReductionType::kF16;
    case plan::TensorMapType::kBF16:
      return ReductionType::kBF16;
    case plan::TensorMapType::kF64:
      return ReductionType::kF64;
    case plan::TensorMapType::kF32:
    case plan::TensorMapType::kF32Ftz:
    case plan::TensorMapType::kTF32:
    case plan::TensorMapType::kTF32Ftz:
      return ReductionType::kF32;
    default:
      return ReductionType::kU32;
  }
}

/// Fills in the runs of a tensor copy. Returns false after an error.
bool AddBox(Warp& warp, const Op* op, int lane, const BulkShape& shape, BulkCopy* copy) {
  const size_t of_map = shape.to_shared ? kBulkFrom : kBulkTo;
  const size_t of_shared = shape.to_shared ? kBulkTo : kBulkFrom;
  const auto tensor = MapOf(warp, op, lane, Double(warp, op, of_map, lane));
  if (!tensor) return false;
  const plan::TensorMap& map = tensor->map;
  const bool is_im2col = shape.mode != TensorMode::kTile;
  if (map.rank != static_cast<int>(shape.rank) || map.im2col != is_im2col) {
    Fault(warp, op, "illegal_instruction",
          fmt::format("A {} copy of {} dimensions uses a tensor map for {} copies of {}.",
                      is_im2col ? "im2col" : "tile", shape.rank, map.im2col ? "im2col" : "tile",
                      map.rank),
          lane);
    return false;
  }
  if (std::string why = UnsupportedBox(map); !why.empty()) {
    warp.worker->unsupported = std::move(why);
    warp.stop = Stop::kFault;
    return false;
  }
  TensorBox box;
  box.mode = shape.mode;
  for (size_t i = 0; i < shape.rank; ++i) {
    box.at[i] = static_cast<int32_t>(Word(warp, op, kBulkCoordinates + i, lane));
  }
  for (size_t i = 0; i < box.offsets.size() && Has(warp, op, kBulkOffsets + i); ++i) {
    box.offsets[i] = Word(warp, op, kBulkOffsets + i, lane) & 0xffffu;
  }
  if (const std::string problem = ProblemOf(map, box, !shape.to_shared); !problem.empty()) {
    Fault(warp, op, "illegal_instruction", problem, lane);
    return false;
  }
  const bool is_bitwise = shape.reduction == Reduction::kAnd || shape.reduction == Reduction::kOr ||
                          shape.reduction == Reduction::kXor;
  if (is_bitwise && map.type == plan::TensorMapType::kS64) {  // measured on an H200
    Fault(warp, op, "illegal_instruction",
          "A bitwise reduction uses a tensor map of signed 64-bit integers.", lane);
    return false;
  }
  const BoxSize size = SizeOf(map);
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;  // more than any GPU's shared memory
  constexpr uint32_t kBoxAlignment = 128;
  // A store reads only elements that are inside the tensor.
  const uint64_t span = shape.to_shared || size.span > kMostBytes ? size.span : 0;
  SharedPlace place;
  if (!FindSharedBytes(warp, op, lane, Word(warp, op, of_shared, lane), span, kBoxAlignment,
                       shape.to_shared, &place)) {
    return false;
  }
  (shape.to_shared ? copy->target : copy->source) = place.block;
  copy->fill = FillOf(map);
  copy->type = ReductionTypeOf(map.type);
  copy->rounds_to_tf32 = shape.to_shared && RoundsToTf32(map);
  for (const TensorPiece& piece : PiecesOf(*tensor, box, place.offset, !shape.to_shared)) {
    if (!piece.is_inside && !shape.to_shared) continue;  // not stored
    if (uint64_t{piece.shared} + piece.bytes > warp.shared_bytes) {
      MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, lane, piece.shared,
                  piece.bytes, shape.to_shared);
      return false;
    }
    std::byte* shared = place.block->memory + piece.shared;
    std::byte* global = nullptr;
    if (piece.is_inside) {
      global = GlobalRange(warp, op, lane, piece.global, piece.bytes, !shape.to_shared);
      if (global == nullptr) return false;
    }
    copy->runs.push_back(shape.to_shared ? CopyRun{shared, global, piece.bytes}
                                         : CopyRun{global, shared, piece.bytes});
  }
  return true;
}

/// Counts what the copy moves through global memory, 32 pieces at a time: swizzling scatters pieces
/// in shared memory only.
void CountCopy(Warp& warp, const Op* op, const BulkCopy& copy) {
  uint32_t offsets[kLanes] = {};
  uint32_t lanes = 0;
  int pieces = 0;
  const auto count = [&] {
    if (lanes != 0) CountGlobal(warp, op, lanes, 0, offsets);
    lanes = 0;
    pieces = 0;
  };
  if (copy.target != nullptr && copy.source != nullptr) return;
  for (const CopyRun& run : copy.runs) {
    const std::byte* host = copy.target == nullptr ? run.to : run.from;
    if (host == nullptr) continue;
    const uint64_t address = reinterpret_cast<uint64_t>(host) - warp.bias;
    for (uint32_t done = 0; done < run.bytes; done += kPieceBytes) {
      offsets[pieces] = static_cast<uint32_t>(address + done);
      lanes |= 1u << pieces;
      if (++pieces == kLanes) count();
    }
  }
  count();
}

/// The barrier that a copy to `block` reports to must have been initialised there, for the
/// asynchronous proxy.
bool CheckBarrier(Warp& warp, const Op* op, int lane, BlockState& block, uint32_t offset) {
  const MemoryBarrier* barrier = AsyncOf(block).Find(offset);
  if (barrier == nullptr) {
    Fault(warp, op, "invalid_barrier",
          "A bulk copy reports to an mbarrier that was not initialised.", lane);
    return false;
  }
  if (warp.checking && &block == warp.block &&
      !block.checker->clocks().Proxied(barrier->init_thread / kLanes, barrier->init_clock,
                                       warp.index)) {
    Warn(warp, op, "missing_proxy_fence",
         "The asynchronous proxy may not see that the mbarrier of this copy was initialised: a "
         "fence.mbarrier_init or fence.proxy.async is missing after mbarrier.init.",
         lane);
  }
  return true;
}

/// Issues a copy to shared memory, which reports to the barrier at `offset` of the same block.
bool IssueTo(Warp& warp, const Op* op, BulkCopy copy, uint32_t offset) {
  BlockState& block = *copy.target;
  if (!CheckIssue(warp, copy) || !CheckBarrier(warp, op, copy.lane, block, offset)) return false;
  MakePending(copy);
  Delivery delivery;
  delivery.barrier = offset;
  delivery.copy = std::move(copy);
  return AsyncOf(block).Expect(warp, std::move(delivery));
}

/// Finds the mbarrier at `address` to which a copy to `target` reports; null: to several blocks.
/// Returns false after an error.
bool FindReported(Warp& warp, const Op* op, int lane, uint32_t address, const BlockState* target,
                  SharedPlace* barrier) {
  constexpr uint32_t kBarrierBytes = 8;
  if (!FindSharedBytes(warp, op, lane, address, kBarrierBytes, kBarrierBytes, true, barrier)) {
    return false;
  }
  if (target == nullptr || barrier->block == target) return true;
  Fault(warp, op, "invalid_barrier",
        "An asynchronous copy writes to the shared memory of one block and reports to an mbarrier "
        "of another.",
        lane);
  return false;
}

/// Copies from shared memory or registers to shared::cluster are for clusters only, even if they
/// stay within the block (measured on an H200).
bool CheckClustered(Warp& warp, const Op* op, int lane) {
  if (warp.worker->launch->is_clustered) return true;
  Fault(warp, op, "illegal_instruction",
        "A copy from a block's own data to shared::cluster is illegal in a kernel that is not "
        "launched as clusters. Give the launch a cluster size, of one block at least, or store and "
        "arrive at the mbarrier.",
        lane);
  return false;
}

/// Issues a copy that reports to a barrier. With .multicast, each of several blocks gets the data
/// at the same offset, and the copy reports to the barrier of each.
bool IssueReporting(Warp& warp, const Op* op, const BulkCopy& copy) {
  if (copy.source != nullptr && !CheckClustered(warp, op, copy.lane)) return false;
  SharedPlace barrier;
  if (!FindReported(warp, op, copy.lane, Word(warp, op, kBulkBarrier, copy.lane),
                    Has(warp, op, kBulkMask) ? nullptr : copy.target, &barrier)) {
    return false;
  }
  const size_t blocks = warp.block->cluster->blocks.size();
  if (Has(warp, op, kBulkMask) && (Mask(warp, op, copy.lane) >> blocks) != 0) {
    Fault(warp, op, "illegal_instruction",
          fmt::format("The mask {:#x} of a multicast names blocks that the cluster of {} does not "
                      "have.",
                      Mask(warp, op, copy.lane), blocks),
          copy.lane);
    return false;
  }
  for (BulkCopy& one : TargetsOf(warp, op, copy)) {
    if (one.target != warp.block && one.target->live_threads == 0) {
      Fault(
          warp, op, "exited_block",
          fmt::format("A bulk copy writes to the shared memory of block {}, which has exited: the "
                      "blocks of a cluster must wait for each other before they exit.",
                      Text(one.target->index)),
          copy.lane);
      return false;
    }
    if (!IssueTo(warp, op, std::move(one), barrier.offset)) return false;
  }
  return true;
}

/// flops: a BulkShape; imm: a list of BulkOperand slots.
const Op* IssueBulk(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    std::optional<BulkCopy> copy = BulkCopyOf(warp, op, lane);
    if (!copy) return nullptr;
    if (copy->runs.empty()) continue;
    warp.slice -= static_cast<int64_t>(BytesOf(*copy) / 256);  // longer than an instruction
    if (warp.counting) CountCopy(warp, op, *copy);
    if (Has(warp, op, kBulkBarrier)) {
      if (!IssueReporting(warp, op, *copy)) return nullptr;
    } else {
      if (!CheckIssue(warp, *copy)) return nullptr;
      AsyncOf(warp).QueueOf(warp).PushBulk(std::move(*copy));
    }
  }
  return op + 1;
}

/// st.async and red.async. src: shared::cluster address, value, barrier; flops: a BulkShape with
/// the reduction; aux: the bytes of the value.
const Op* StoreAsync(Warp& warp, const Op* op) {
  const BulkShape shape = BulkShape::Unpack(op->flops);
  const uint32_t bytes = op->aux;
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    SharedPlace to, barrier;
    if (!CheckClustered(warp, op, lane)) return nullptr;
    const auto address =
        At<const uint32_t>(warp, op->src[0])[lane] + static_cast<uint32_t>(op->target);
    if (!FindSharedBytes(warp, op, lane, address, bytes, bytes, true, &to) ||
        !FindReported(warp, op, lane, At<const uint32_t>(warp, op->src[2])[lane], to.block,
                      &barrier)) {
      return nullptr;
    }
    BulkCopy copy;
    copy.op = op;
    copy.warp = &warp;
    copy.lane = lane;
    copy.target = to.block;
    copy.reduction = shape.reduction;
    copy.type = shape.type;
    copy.fill = bytes == 8 ? At<const uint64_t>(warp, op->src[1])[lane]
                           : At<const uint32_t>(warp, op->src[1])[lane] * 0x1'0000'0001u;
    copy.runs.push_back({to.block->memory + to.offset, nullptr, bytes});
    if (!IssueTo(warp, op, std::move(copy), barrier.offset)) return nullptr;
  }
  return op + 1;
}

const Op* CommitBulk(Warp& warp, const Op* op) {
  AsyncOf(warp).QueueOf(warp).CommitBulk(warp.active);
  return op + 1;
}
const Op* WaitBulk(Warp& warp, const Op* op) {
  const uint32_t pending = At<const uint32_t>(warp, op->src[0])[__builtin_ctz(warp.active)];
  return AsyncOf(warp).QueueOf(warp).WaitBulk(warp, warp.active, pending) ? op + 1 : nullptr;
}

}  // namespace

std::optional<BulkCopy> BulkCopyOf(Warp& warp, const Op* op, int lane) {
  const BulkShape shape = BulkShape::Unpack(op->flops);
  BulkCopy copy;
  copy.op = op;
  copy.warp = &warp;
  copy.lane = lane;
  copy.reduction = shape.reduction;
  copy.type = shape.type;
  const bool fine = shape.is_tensor ? AddBox(warp, op, lane, shape, &copy)
                                    : AddBytes(warp, op, lane, shape, &copy);
  if (!fine) return std::nullopt;
  return copy;
}

std::vector<BulkCopy> TargetsOf(const Warp& warp, const Op* op, const BulkCopy& copy) {
  if (!Has(warp, op, kBulkMask)) return {copy};
  std::vector<BulkCopy> copies;
  const auto& blocks = warp.block->cluster->blocks;
  for (uint32_t rest = Mask(warp, op, copy.lane); rest != 0; rest &= rest - 1) {
    const auto rank = static_cast<size_t>(__builtin_ctz(rest));
    if (rank >= blocks.size()) break;
    BulkCopy& one = copies.emplace_back(copy);
    one.target = blocks[rank].get();
    for (CopyRun& run : one.runs) run.to = one.target->memory + (run.to - copy.target->memory);
  }
  return copies;
}

void RegisterBulkCopies(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@bulk", &IssueBulk);
  add("@st.async", &StoreAsync);
  add("@bulk.commit", &CommitBulk);
  add("@bulk.wait", &WaitBulk);
}

}  // namespace cupel::emu
