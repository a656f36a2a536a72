// The tables of handlers for this processor. Hot handlers are compiled several times, for AVX-512,
// AVX2 and plain x86-64 (*.inc through handlers_*.cc). The table is chosen at run time by what the
// processor supports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emu/core/handler_table.h"

namespace cupel::emu {

/// The table for this processor. `limit` (for tests): 0 plain, 1 up to AVX2, 2 up to AVX-512.
const HandlerTable& Handlers(int limit = 2);
/// The highest level that this processor supports: 0, 1 or 2 as above.
int VectorLevel();

void RegisterPlain(HandlerTable& table);
void RegisterAvx2(HandlerTable& table);
void RegisterAvx512(HandlerTable& table);
// Handlers that need no vectors, compiled once.
void RegisterControl(HandlerTable& table);
void RegisterAtomic(HandlerTable& table);
void RegisterWarp(HandlerTable& table);
void RegisterMatrixMoves(HandlerTable& table);
void RegisterWarpgroups(HandlerTable& table);
void RegisterTensorMemory(HandlerTable& table);
void RegisterTensorProducts(HandlerTable& table);
void RegisterAsync(HandlerTable& table);
void RegisterMemoryBarriers(HandlerTable& table);
void RegisterBulkCopies(HandlerTable& table);
void RegisterTensorMaps(HandlerTable& table);
void RegisterCalls(HandlerTable& table);
void RegisterPrint(HandlerTable& table);
void RegisterHeap(HandlerTable& table);
void RegisterRare(HandlerTable& table);
void RegisterRareWarp(HandlerTable& table);

}  // namespace cupel::emu
