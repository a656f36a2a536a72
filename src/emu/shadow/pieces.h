// Floats that are moved in parts: a double as two words, a float32 as two halfwords, or any of them
// through masks, shifts and stores of 16 or 32 bits. Each part keeps the exact value of the whole,
// tied to its own bits. The parts of one value, in order, are joined to the float again.
//
// A float whose lower part was cleared is the float rounded toward zero: the upper half of a
// float32 is a bfloat16. Its exact value stays the same, as with any rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "emu/shadow/memory.h"

namespace cupel::emu {

/// The piece of `whole` at granule `index`; a kShort for integers.
ShadowKind PieceOf(ShadowKind whole, int index);
/// The cell of a piece of `cell`. The caller must tie its bits. Integers keep their flags.
Cell Piece(const Cell& cell, int index);
/// Joins pieces that are in order. The caller must tie the bits of joined floats.
void JoinPieces(Cell* cells, int granules);
/// The shadow of a `want` at granule `at` with bits `own`, if the granules below the upper pieces
/// of a float are zero. Returns false otherwise.
bool TruncatedFloat(ShadowKind want, uint64_t own, const Cell* cells, int granules, int at,
                    Shadow* shadow);

}  // namespace cupel::emu
