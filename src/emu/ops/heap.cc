// malloc and free of device code. The parameters are in local memory, as the C ABI defines. The
// heap is a part of global memory: every access is checked like those to buffers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "emu/check/report.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/memory.h"
#include "emu/core/op.h"
#include "emu/core/spaces.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

/// A parameter of a call, which has 8 bytes. src[0]: stack pointer; the list has the offsets.
template <bool Writes>
void Parameter(Warp& warp, const Op* op, int lane, int index, uint64_t* value) {
  const uint64_t offset = At<const uint32_t>(warp, op->src[0])[lane] +
                          static_cast<uint64_t>(-1 - ListOf(warp, op)[index]);
  if (offset + sizeof *value > warp.local_bytes) return;
  auto* bytes = reinterpret_cast<std::byte*>(value);
  for (size_t i = 0; i < sizeof *value; ++i) {
    std::byte& local = *LocalByte(warp, lane, offset + i);
    Writes ? local = bytes[i] : bytes[i] = local;
  }
}

/// list: the variables of the size and the result.
const Op* Malloc(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint64_t bytes = 0;
    Parameter<false>(warp, op, lane, 0, &bytes);
    Result<uint64_t> address = warp.worker->launch->memory->AllocateOnHeap(bytes);
    if (!address) {
      warp.worker->unsupported = address.error().message;
      warp.stop = Stop::kFault;
      return nullptr;
    }
    Parameter<true>(warp, op, lane, 1, &*address);
  }
  return op + 1;
}

/// list: the variable of the pointer.
const Op* Free(Warp& warp, const Op* op) {
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    uint64_t address = 0;
    Parameter<false>(warp, op, lane, 0, &address);
    if (address == 0) continue;
    if (!warp.worker->launch->memory->FreeOnHeap(address)) {
      return Fault(warp, op, "invalid_free",
                   "free gets a pointer that malloc did not return, or that is freed already.",
                   lane);
    }
  }
  // The next accesses look for their memory again.
  std::fill(warp.worker->hints.begin(), warp.worker->hints.end(), Hint{});
  return op + 1;
}

}  // namespace

void RegisterHeap(HandlerTable& table) {
  Entry entry;
  entry.full = entry.masked = &Malloc;
  table.Add("@malloc", entry);
  entry.full = entry.masked = &Free;
  table.Add("@free", entry);
}

}  // namespace cupel::emu
