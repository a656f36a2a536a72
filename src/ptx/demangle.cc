// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "ptx/parser.h"

namespace cupel::ptx {

std::string Demangle(const std::string& mangled) {
  // The demangler recurses; names longer than this are not from a compiler's C++.
  constexpr size_t kMaxMangledBytes = 16u << 10;
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangledBytes) return mangled;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name ? std::string(name.get()) : mangled;
}

}  // namespace cupel::ptx
