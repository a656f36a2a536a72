// Floats that are moved in parts: a double as two words, a float32 as two halfwords, any of them
// through masks, shifts and stores of 16 or 32 bits. Each part keeps the exact value of the whole,
// tied to its own bits; parts of one value in their order are the float again.
//
// What is left of a float whose lower part was cleared is the float rounded toward zero: the upper
// half of a float32 is a bfloat16. Its exact value stays the same, as with any rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/shadow_memory.h"

namespace cupel::emu {

/// The piece of `whole` at granule `index`; of integers a kShort.
ShadowKind PieceOf(ShadowKind whole, int index);
/// The cell of a piece of `cell`; its bits are still to be tied. Integers keep their flags.
Cell Piece(const Cell& cell, int index);
/// Puts pieces in order together. Bits of what was joined are still to be tied.
void JoinPieces(Cell* cells, int granules);
/// The shadow of a `want` at granule `at`, whose bits are `own`, where the upper pieces of a float
/// have nothing but zeros below them. False where there is none.
bool TruncatedFloat(ShadowKind want, uint64_t own, const Cell* cells, int granules, int at,
                    Shadow* shadow);

}  // namespace cupel::emu
