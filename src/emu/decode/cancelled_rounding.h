// Where a kernel rounds a float to an integer k by adding 1.5 * 2^23, but the result does not
// depend on k: 2^(y - k) * 2^k, as in the mathematical library's expf. The second factor comes from
// k's bits. Shadow values (emu/shadow) pass through such code, because any k gives the same exact
// result. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ptx/ir.h"

namespace cupel::emu {

/// By instruction of the body: true if every use of k cancels, for the sum that rounds, the sum
/// that subtracts the large constant again, and the shift that moves the bits of k into an
/// exponent. Straight-line code only.
std::vector<bool> CancelledRoundings(const ptx::Function& function);

}  // namespace cupel::emu
