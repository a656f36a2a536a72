// wgmma: issues products, reads matrices from shared memory into fragments, clears accumulators,
// and waits. The products are those of mma.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/warpgroup.h"

#include <array>
#include <cstring>
#include <vector>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/op_flags.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"
#include "emu/sync/async.h"
#include "emu/sync/barriers.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kOperandPiece = 16;

/// Calls f(offsets, active) for the pieces of A and B that a warp's part of a product reads.
template <class F>
bool ForEachOperandPiece(const WarpgroupProduct& product, F f) {
  const WarpgroupShape shape = WarpgroupShape::Unpack(product.op->flops);
  if (product.op->src[0] >= 0 && !ForEachPiece(MatrixDescriptor(product.a), product.warp % 4 * 16,
                                               16, shape.transposes_a, 2, f)) {
    return false;
  }
  return ForEachPiece(MatrixDescriptor(product.b), 0, 8 * shape.columns, shape.transposes_b,
                      shape.depth_of_b(), f);
}

/// True if the operands are surely inside of shared memory.
bool AreInBounds(const Warp& warp, const Op* op, const WarpgroupProduct& product) {
  const WarpgroupShape shape = WarpgroupShape::Unpack(op->flops);
  const bool left = op->src[0] < 0 || MatrixDescriptor(product.a).EndOf(64, shape.transposes_a,
                                                                        2) <= warp.shared_bytes;
  return left && MatrixDescriptor(product.b).EndOf(8 * shape.columns, shape.transposes_b,
                                                   shape.depth_of_b()) <= warp.shared_bytes;
}

bool CheckBounds(Warp& warp, const Op* op, const uint32_t* offsets, uint32_t active) {
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (offsets[i] + kOperandPiece <= warp.shared_bytes) continue;
    MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared, i, offsets[i],
                kOperandPiece, false);
    return false;
  }
  return true;
}

/// The memory that a product reads must have been written, for the asynchronous proxy, before now.
bool CheckPieces(Warp& warp, const Op* op, const uint32_t* offsets, uint32_t active) {
  const WarpClock& clock = warp.block->checker->clocks().of(warp.index);
  const HandlerTable& handlers = *warp.worker->launch->code->handlers;
  if (handlers.stamp_proxied(warp, op, offsets, active, clock.proxied.data())) return true;
  AccessKind kind;
  kind.proxied = true;
  return CheckShared(warp, op, kind, active, kOperandPiece, offsets);
}

std::vector<int32_t> RegistersAt(const int32_t* list, int32_t count) {
  std::vector<int32_t> registers(static_cast<size_t>(count));
  for (int32_t& reg : registers) reg = -1 - *list++;
  return registers;
}

/// src: descriptors of A (-1: in registers) and B, scale-d (-1: constant); flops: a WarpgroupShape.
const Op* IssueProduct(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  WarpgroupProduct product;
  product.op = op;
  product.warp = warp.index;
  if (op->src[0] >= 0) product.a = At<const uint64_t>(warp, op->src[0])[0];
  product.b = At<const uint64_t>(warp, op->src[1])[0];
  const WarpgroupShape shape = WarpgroupShape::Unpack(op->flops);
  if (shape.is_sparse && !shape.transposes_b && MatrixDescriptor(product.b).swizzle == 32) {
    // PTX does not say where the second half of such a line of 64 bytes is.
    warp.worker->unsupported = "wgmma.mma_async.sp with a 32-byte swizzle along k";
    warp.stop = Stop::kFault;
    return nullptr;
  }
  if (op->src[2] >= 0) product.scale = MaskAt(warp, op->src[2]);
  const bool in_bounds =
      AreInBounds(warp, op, product) ||
      ForEachOperandPiece(product, [&](const uint32_t* offsets, uint32_t active) {
        return CheckBounds(warp, op, offsets, active);
      });
  if (!in_bounds) return nullptr;
  if (warp.checking) {
    SharedChecker& checker = *warp.block->checker;
    const bool is_ordered =
        ForEachOperandPiece(product, [&](const uint32_t* offsets, uint32_t active) {
          return CheckPieces(warp, op, offsets, active);
        });
    if (!is_ordered) return nullptr;
    product.clock = checker.clocks().of(warp.index).now;
    checker.clocks().Sync(warp.index, kFullMask);  // later writes of the warp are later
    product.seen = checker.clocks().of(warp.index).seen;
  }
  const int32_t* list = ListOf(warp, op);
  const int32_t sums = -1 - list[0], left = -1 - list[1];
  const bool fine = AsyncOf(warp).warpgroups().Issue(warp, product, RegistersAt(list + 2, sums),
                                                     RegistersAt(list + 2 + sums, left));
  return fine ? op + 1 : nullptr;
}

/// src[0]: the descriptor; flops: a WarpgroupRead. "@wgmma" has checked the addresses.
const Op* ReadBlocks(Warp& warp, const Op* op) {
  const WarpgroupRead read = WarpgroupRead::Unpack(op->flops);
  const MatrixDescriptor matrix(At<const uint64_t>(warp, op->src[0])[0]);
  const uint32_t first = 8 * (read.first + (read.of_left ? warp.index % 4 * 2 : 0));
  const int32_t* slot = ListOf(warp, op);
  // A block has 8 lines of 16 bytes.
  for (uint32_t block = 0; block < read.depth * read.lines; ++block, ++slot) {
    const uint32_t line = first + block / read.depth * 8, k = block % read.depth;
    std::byte* to = warp.frame + *slot;
    if (!read.transposed) {
      for (uint32_t i = 0; i < 8; ++i) {
        std::memcpy(to + 16 * i, warp.shared + matrix.OfLines(line + i, 16 * k), 16);
      }
      continue;
    }
    for (uint32_t column = 0; column < 8; ++column) {
      std::array<uint16_t, 8> piece;
      std::memcpy(piece.data(), warp.shared + matrix.OfColumns(line, 8 * k + column), 16);
      for (uint32_t i = 0; i < 8; ++i) std::memcpy(to + 16 * i + 2 * column, &piece[i], 2);
    }
  }
  return op + 1;
}

/// src[0]: a predicate, the same in all lanes; imm: a list of flops slots, which become 0 if it is
/// false.
const Op* ClearAccumulators(Warp& warp, const Op* op) {
  if (MaskAt(warp, op->src[0]) != 0) return op + 1;
  const int32_t* slot = ListOf(warp, op);
  for (uint32_t i = 0; i < op->flops; ++i) std::memset(warp.frame + slot[i], 0, 4 * kLanes);
  return op + 1;
}

const Op* FenceRegisters(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  AsyncOf(warp).warpgroups().Fence(warp);
  return op + 1;
}

const Op* CommitProducts(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  AsyncOf(warp).warpgroups().Commit(warp);
  return op + 1;
}

/// The memory that a warp's part of a product reads must not have been written since it was issued.
/// `warp` waits for it: the memory is read until now. Returns false after an error.
bool CheckUnchanged(Warp& warp, const WarpgroupProduct& product) {
  const HandlerTable& handlers = *warp.worker->launch->code->handlers;
  return ForEachOperandPiece(product, [&](const uint32_t* offsets, uint32_t active) {
    return handlers.stamp_proxied(warp, product.op, offsets, active, product.seen.data()) ||
           warp.block->checker->CheckUnchanged(warp, product.op, active, kOperandPiece, offsets,
                                               product.seen.data());
  });
}

/// The warp is the first of its warpgroup that waits for the product: it checks all four parts.
bool CompleteProduct(Warp& warp, const WarpgroupProduct& product) {
  BlockClocks& clocks = warp.block->checker->clocks();
  const std::vector<WarpgroupProduct*> others = AsyncOf(warp).warpgroups().OthersOf(product);
  for (const WarpgroupProduct* other : others) clocks.Learn(warp.index, other->warp, other->clock);
  if (!CheckUnchanged(warp, product)) return false;
  for (WarpgroupProduct* other : others) {
    if (!CheckUnchanged(warp, *other)) return false;
    other->reader = warp.index;
    other->read_until = clocks.of(warp.index).now;
  }
  return true;
}

/// src[0]: how many groups may remain in progress.
const Op* WaitForProducts(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const uint32_t pending = At<const uint32_t>(warp, op->src[0])[0];
  Warpgroups& warpgroups = AsyncOf(warp).warpgroups();
  if (!warpgroups.CanWait(warp, pending)) return WaitAtBarrier(warp, op, kWarpgroupBarrier);
  const std::vector<WarpgroupProduct> done = warpgroups.Wait(warp, pending);
  if (!warp.checking || done.empty()) return op + 1;
  BlockClocks& clocks = warp.block->checker->clocks();
  for (const WarpgroupProduct& product : done) {
    if (product.read_until != 0) {
      clocks.Learn(warp.index, product.reader, product.read_until);
    } else if (!CompleteProduct(warp, product)) {
      return nullptr;
    }
  }
  clocks.Sync(warp.index, kFullMask);  // all lanes know that the products are complete
  return op + 1;
}

/// The instructions between two wgmma instructions use registers of products. The list has the
/// number of uses, and for each a RegisterTouch, a register and the source of a copy; all as
/// -1 - number.
const Op* UseRegisters(Warp& warp, const Op* op) {
  if (!warp.checking || warp.active != kFullMask || !warp.block->async) return op + 1;
  Warpgroups& warpgroups = warp.block->async->warpgroups();
  const int32_t* list = ListOf(warp, op);
  const int32_t uses = -1 - *list++;
  for (int32_t i = 0; i < uses; ++i, list += 3) {
    if (!warpgroups.Use(warp, op, static_cast<RegisterTouch>(-1 - list[0]), -1 - list[1],
                        -1 - list[2])) {
      return nullptr;
    }
  }
  return op + 1;
}

}  // namespace

void RegisterWarpgroups(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@wgmma", &IssueProduct);
  add("@wgmma.read", &ReadBlocks);
  add("@wgmma.clear", &ClearAccumulators);
  add("@wgmma.fence", &FenceRegisters);
  add("@wgmma.commit", &CommitProducts);
  add("@wgmma.wait", &WaitForProducts);
  add("@wgmma.use", &UseRegisters);
}

}  // namespace cupel::emu
