// SPDX-License-Identifier: Apache-2.0
#include "emu/ops/handlers.h"

#include <algorithm>
#include <array>

#include "emu/core/handler_table.h"

namespace cupel::emu {

#ifdef CUPEL_PLAIN_HANDLERS
int VectorLevel() { return 0; }
#else
int VectorLevel() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2")) {
    return 0;
  }
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  return wide ? 2 : 1;
}
#endif

const HandlerTable& Handlers(int limit) {
  static const std::array<HandlerTable, 3> all = [] {
    std::array<HandlerTable, 3> tables;
    RegisterPlain(tables[0]);
#ifndef CUPEL_PLAIN_HANDLERS
    if (VectorLevel() >= 1) RegisterAvx2(tables[1]);
    if (VectorLevel() >= 2) RegisterAvx512(tables[2]);
#endif
    for (HandlerTable& table : tables) {
      RegisterControl(table);
      RegisterAtomic(table);
      RegisterWarp(table);
      RegisterMatrixMoves(table);
      RegisterWarpgroups(table);
      RegisterTensorMemory(table);
      RegisterTensorProducts(table);
      RegisterAsync(table);
      RegisterMemoryBarriers(table);
      RegisterBulkCopies(table);
      RegisterTensorMaps(table);
      RegisterCalls(table);
      RegisterPrint(table);
      RegisterHeap(table);
      RegisterRare(table);
      RegisterRareWarp(table);
    }
    return tables;
  }();
  return all[static_cast<size_t>(std::clamp(limit, 0, VectorLevel()))];
}

}  // namespace cupel::emu
