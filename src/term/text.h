// Helpers for text on terminals.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/printable.h"

namespace cupel::term {

using cupel::Fit;
using cupel::Printable;
using cupel::Width;

/// "0.8 s", "42 s", "3 min 05 s", "2 h 10 min".
std::string Duration(double seconds);

}  // namespace cupel::term
