// SPDX-License-Identifier: Apache-2.0
#include "base/demangle.h"

#include "ptx/parser.h"

namespace cupel::ptx {

std::string Demangle(const std::string& mangled) { return cupel::Demangle(mangled); }

}  // namespace cupel::ptx
