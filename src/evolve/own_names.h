// Which names of a CUDA file are its own (variables, parameters, functions, types, macros) and may
// be renamed without changing what it does. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "evolve/tokens.h"

namespace cupel::evolve {

/// For each token whether it is a name that the file declares. By the look of declarations, without
/// a compiler: a name that is overlooked counts as foreign. Names after a dot or arrow are own
/// unless they are called or are x, y, z, w; those after :: never are.
std::vector<bool> OwnNames(const std::vector<Token>& tokens);

}  // namespace cupel::evolve
