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
  std::vector<std::string> undefined;    // to be found in the recorder or a library; not weak ones
  std::vector<std::string> unversioned;  // of these, those that no library promised at link time
  size_t constructors = 0;               // entries of .init_array
};

Result<SharedObject> ReadSharedObject(std::span<const std::byte> file);

/// "host code calls pthread_create", "needs the symbol foo …": legal, worth knowing.
std::vector<std::string> NotesFromObject(const SharedObject& object);

}  // namespace cupel::build
