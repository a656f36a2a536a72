// What an engine observed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"

namespace cupel::records {

enum class Severity { kError, kWarning };

/// Something that an engine observed and that a correct kernel does not do.
struct Finding {
  std::string code;  // "out_of_bounds", "misaligned", "illegal_launch", "barrier_divergence", …
  Severity severity = Severity::kError;
  std::string kernel;  // demangled name with template arguments
  std::string file;    // of the source line; empty if unknown
  int line = 0;
  plan::Dim3 block{0, 0, 0}, thread{0, 0, 0};
  std::string where;       // "argument 1 (weights) + 5120 bytes, 4 past its end"; may be empty
  std::string message;     // one sentence
  uint64_t count = 1;      // occurrences of the same code at the same line
  bool undefined = false;  // the kernel got values that are not defined; not in the record
};

}  // namespace cupel::records
