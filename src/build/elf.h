// Reads what the audit needs from a shared object: a hostile file, so every offset is checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cupel::build {

struct SharedObject {
  std::vector<std::string> defined;      // dynamic symbols
  std::vector<std::string> undefined;    // strong symbols to find in the recorder or a library
  std::vector<std::string> weak;         // the same, but null if not found
  std::vector<std::string> unversioned;  // undefined symbols without a library version
  size_t constructors = 0;               // run on loading: entries of .init_array
  size_t resolvers = 0;                  // run even earlier: of indirect functions
  enum class Stack { kUnmarked, kPlain, kExecutable } stack = Stack::kUnmarked;
  bool writable_code = false;     // a segment that is both writable and executable
  bool text_relocations = false;  // the loader must write into code
  struct Code {
    std::string section;
    std::span<const std::byte> bytes;  // in the file
  };
  std::vector<Code> code;
};

Result<SharedObject> ReadSharedObject(std::span<const std::byte> file);

}  // namespace cupel::build
