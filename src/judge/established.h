// What a verdict can say beyond "within tolerance", for each output: on how many inputs it was
// equal in exact arithmetic, bit-equal on small integers, and the same in other orders; and why
// this could not be established (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "judge/compare.h"
#include "judge/shadow.h"

namespace cupel::judge {

/// One output at one setting, over the inputs tried with shadows.
struct EstablishedOutput {
  std::string name;
  bool is_float = true;
  int equal_inputs = 0;  // inputs on which every element is equal in exact arithmetic
  int64_t elements = 0, equal = 0, reset = 0, doubtful = 0;
  double own_rms = 0, own_max = 0;  // the kernel's own rounding, as a share of the output's scale
  bool reduced_precision = false;
  std::vector<engine::ShadowCause> causes;  // of resets and doubts, most frequent first

  /// Adds the results on further inputs. Does not change the name.
  void Add(const EstablishedOutput& other);
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

  /// If `rounding`, also records the kernel's own rounding. Pass false for inputs that were scaled
  /// down: there it includes the rounding of subnormals, which says nothing about the task's
  /// inputs.
  void Add(size_t output, const std::string& name, const ShadowComparison& comparison,
           bool rounding = true);
};

Json ToJson(const Established& established);

/// One text for each output of a verdict's settings: "output: within tolerance on 15 inputs; equal
/// in exact arithmetic up to float32 constants on 6 inputs; …".
std::vector<std::string> EstablishedTexts(const std::vector<const Established*>& settings);

/// Compares exactly, except for the sign of zero. For inputs whose results are exact in any order.
Comparison CompareExactly(const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
