// What is established about a kernel beyond "within tolerance", for each output of a setting
// (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cupel::records {

/// A place in the program where shadows were reset or doubted.
struct ShadowCause {
  std::string what;      // "shl.b32 at kernel.cu:12"
  int64_t elements = 0;  // output elements that depend on this place
};

/// One output at one setting, over the inputs tried with shadows.
struct EstablishedOutput {
  std::string name;
  bool is_float = true;
  int equal_inputs = 0;  // inputs on which every element is equal in exact arithmetic
  int64_t elements = 0, equal = 0, reset = 0, doubtful = 0;
  double own_rms = 0, own_max = 0;  // the kernel's own rounding, as a share of the output's scale
  bool reduced_precision = false;
  std::vector<ShadowCause> causes;  // of resets and doubts, most frequent first
};

struct Established {
  int tolerance_inputs = 0;
  int shadow_inputs = 0;  // includes `tiny_inputs`, which were scaled down
  int tiny_inputs = 0;
  int exact_inputs = 0;
  int schedules = 0;
  std::string shadow_note, exact_note, schedule_note;  // why it was not tried or not conclusive
  std::string twin;  // the smaller sizes that were used because the setting is too large
  std::vector<std::string> not_followed;  // instructions that shadows do not follow
  std::vector<EstablishedOutput> outputs;
};

}  // namespace cupel::records
