// Handlers compiled for AVX-512; see options.cmake for the flags and handlers.cc for the choice.
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emu/handlers.h"
#include "emu/matrix.h"
#include "emu/op.h"
#include "emu/quick_race.h"
#include "emu/race_stamp.h"

namespace cupel::emu {
namespace {
namespace avx512 {
#include "emu/handlers_all.inc"
}  // namespace avx512
}  // namespace

void RegisterAvx512(HandlerTable& table) { avx512::RegisterAll(table); }

}  // namespace cupel::emu
