// What a verdict may say beyond "within tolerance": per output, how many inputs it was equal on in
// exact arithmetic, bit-equal on small integers, the same in other orders, and why not where it was
// not (docs/judging.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "judge/compare.h"
#include "judge/shadow.h"

namespace cupel::judge {

/// Of one output at one setting, over the inputs tried with shadows.
struct EstablishedOutput {
  std::string name;
  bool is_float = true;
  int equal_inputs = 0;  // on which every element is equal in exact arithmetic
  int64_t elements = 0, equal = 0, reset = 0, doubtful = 0;
  double own_rms = 0, own_max = 0;  // the kernel's own rounding, share of the output's scale
  bool reduced_precision = false;
  std::vector<engine::ShadowCause> causes;  // of resets and doubts, the most frequent first

  /// Adds what was found on further inputs; the name stays.
  void Add(const EstablishedOutput& other);
};

struct Established {
  int tolerance_inputs = 0;
  int shadow_inputs = 0;  // of which `tiny_inputs` were scaled down
  int tiny_inputs = 0;
  int exact_inputs = 0;
  int schedules = 0;
  std::string shadow_note, exact_note, schedule_note;  // why it was not tried, or failed to tell
  std::string twin;  // the smaller sizes it was tried at, where the setting is too large
  std::vector<std::string> not_followed;  // instructions that shadows do not follow
  std::vector<EstablishedOutput> outputs;

  /// `rounding`: its own rounding counts. On inputs that were scaled down a shorter format's is
  /// that of its subnormals, which says nothing about the inputs that were asked for.
  void Add(size_t output, const std::string& name, const ShadowComparison& comparison,
           bool rounding = true);
};

Json ToJson(const Established& established);

/// One text for each output of a verdict's settings; "output: within tolerance on 15 inputs; equal
/// in exact arithmetic up to float32 constants on 6; …".
std::vector<std::string> EstablishedTexts(const std::vector<const Established*>& settings);

/// Bit for bit, but for the sign of zero: on inputs whose results are exact in any order.
Comparison CompareExactly(const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
