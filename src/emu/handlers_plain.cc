// Handlers compiled for plain x86-64 (SSE2, software fma); see options.cmake for the flags and
// handlers.cc for the choice.
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "emu/handlers.h"
#include "emu/matrix.h"
#include "emu/op.h"
#include "emu/quick_race.h"
#include "emu/race_stamp.h"

namespace cupel::emu {
namespace {
namespace plain {
#include "emu/handlers_all.inc"
}  // namespace plain
}  // namespace

void RegisterPlain(HandlerTable& table) { plain::RegisterAll(table); }

}  // namespace cupel::emu
