// wgmma: reads matrices from shared memory into fragments, and clears accumulators. The products
// are those of mma.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/warpgroup.h"

#include <array>
#include <cstring>

#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/warp.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

/// src[0]: the descriptor; flops: a WarpgroupRead.
const Op* ReadBlocks(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  const WarpgroupRead read = WarpgroupRead::Unpack(op->flops);
  const MatrixDescriptor matrix(At<const uint64_t>(warp, op->src[0])[0]);
  const uint32_t first = 8 * (read.first + (read.of_left ? warp.index % 4 * 2 : 0));
  const uint32_t bytes = read.transposed ? 2 : 4;
  const int32_t* slot = ListOf(warp, op);
  for (uint32_t block = 0; block < 2 * read.lines; ++block, ++slot) {
    for (uint32_t part = 0; part < 4 / bytes; ++part) {
      std::array<uint32_t, kLanes> offsets{};
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const uint32_t line = first + block / 2 * 8 + lane / 4;
        const uint32_t byte = block % 2 * 16 + lane % 4 * 4 + part * bytes;
        const uint32_t offset =
            read.transposed ? matrix.OfColumns(line, byte / 2) : matrix.OfLines(line, byte);
        if (offset + bytes > warp.shared_bytes) {
          return MemoryFault(warp, op, FaultKind::kOutOfBounds, MemorySpace::kShared,
                             static_cast<int>(lane), offset, bytes, false);
        }
        std::memcpy(warp.frame + *slot + lane * 4 + part * bytes, warp.shared + offset, bytes);
        offsets[lane] = offset;
      }
      if (warp.checking && !CheckShared(warp, op, false, false, kFullMask, bytes, offsets.data())) {
        return nullptr;
      }
    }
  }
  return op + 1;
}

/// src[0]: a predicate, the same in all lanes; imm: a list of flops slots, which become 0 if it is
/// false.
const Op* ClearAccumulators(Warp& warp, const Op* op) {
  if (warp.active != kFullMask && !AllTogether(warp, op)) return nullptr;
  if (At<const uint32_t>(warp, op->src[0])[0] != 0) return op + 1;
  const int32_t* slot = ListOf(warp, op);
  for (uint32_t i = 0; i < op->flops; ++i) std::memset(warp.frame + slot[i], 0, 4 * kLanes);
  return op + 1;
}

}  // namespace

void RegisterWarpgroups(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@wgmma.read", &ReadBlocks);
  add("@wgmma.clear", &ClearAccumulators);
}

}  // namespace cupel::emu
