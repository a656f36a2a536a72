// Converts between keywords of PTX and enumerators. Shared by the parser and the printer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "ptx/ir.h"

namespace cupel::ptx {

/// Each returns the zero enumerator (kNone) for an unknown word.
Type TypeNamed(std::string_view name);
Space SpaceNamed(std::string_view name);
Linkage LinkageNamed(std::string_view name);

std::string_view Name(Space space);
std::string_view Name(Linkage linkage);

/// Whether "tid.x", "laneid", "clock64" … is a special register. The name has no percent sign.
bool IsSpecialRegister(std::string_view name);

}  // namespace cupel::ptx
