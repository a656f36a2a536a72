// Finds the names that a CUDA file declares (variables, parameters, functions, types, macros).
// These can be renamed without a change of behaviour.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "evolve/tokens.h"

namespace cupel::evolve {

/// Says for each token whether it is a name that the file declares. Recognises declarations by
/// their form, without a compiler; a missed name counts as foreign. Names after a dot or arrow
/// count as own, unless they are called or are x, y, z or w. Names after :: are never own.
std::vector<bool> OwnNames(const std::vector<Token>& tokens);

}  // namespace cupel::evolve
