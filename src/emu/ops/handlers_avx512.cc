// Handlers compiled for AVX-512; see options.cmake for the flags and handlers.cc for the choice.
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emu/check/race_checks.h"
#include "emu/check/sync_notes.h"
#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/quick_race.h"
#include "emu/core/race_stamp.h"
#include "emu/core/tensor_memory.h"
#include "emu/cost/counters.h"
#include "emu/ops/access.h"
#include "emu/ops/handlers.h"
#include "emu/sync/groups.h"

namespace cupel::emu {
namespace {
namespace avx512 {
#include "emu/ops/handlers_all.inc"
}  // namespace avx512
}  // namespace

void RegisterAvx512(HandlerTable& table) { avx512::RegisterAll(table); }

}  // namespace cupel::emu
