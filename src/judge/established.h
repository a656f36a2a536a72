// What a verdict can say beyond "within tolerance", for each output: on how many inputs it was
// equal in exact arithmetic, bit-equal on small integers, and the same in other orders; and why
// this could not be established (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/compare.h"
#include "judge/shadow.h"
#include "records/established.h"

namespace cupel::judge {

/// Adds the results on further inputs. Does not change the name.
void Add(records::EstablishedOutput& to, const records::EstablishedOutput& other);

/// Adds a comparison of one output. If `rounding`, also records the kernel's own rounding. Pass
/// false for inputs that were scaled down: there it includes the rounding of subnormals, which says
/// nothing about the task's inputs.
void Add(records::Established& to, size_t output, const std::string& name,
         const ShadowComparison& comparison, bool rounding = true);

/// One text for each output of a verdict's settings: "output: within tolerance on 15 inputs; equal
/// in exact arithmetic up to float32 constants on 6 inputs; …".
std::vector<std::string> EstablishedTexts(const std::vector<const records::Established*>& settings);

/// Compares exactly, except for the sign of zero. For inputs whose results are exact in any order.
records::Comparison CompareExactly(const task::Tensor& got, const task::Output& want);

}  // namespace cupel::judge
