// Bytes of launch parameters and uploads that host code left undefined: a list with room for more
// tensors than there are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "plan/plan.h"

namespace cupel::plan {

/// Calls `visit(bytes, undefined)` with the bytes that host code gave to a node's work, and those
/// of them that are undefined. Only launches and uploads have such bytes.
template <typename SomeNode, typename Visit>
void VisitHostBytes(SomeNode& node, Visit visit) {
  if (auto* launch = std::get_if<Launch>(&node.work)) visit(launch->parameters, launch->undefined);
  if (auto* upload = std::get_if<Upload>(&node.work)) visit(upload->bytes, upload->undefined);
}

/// How many bytes of a node are undefined.
uint64_t UndefinedIn(const Node& node);
bool HasUndefined(const Plan& plan);

/// What a run finds in undefined bytes. One of these is not enough: a zero may be a list's right
/// end, ones a flag that must be set, and a random word is never the number of a mode. What was
/// found in the recording is the value that a user's call is likely to have, too.
enum class Filling {
  kRandom,  // bits
  kFound,
  kZeros,
  kOnes,   // all bits
  kSmall,  // each word is a whole number from 1 to 4
};
inline constexpr std::array kFillings = {Filling::kRandom, Filling::kFound, Filling::kZeros,
                                         Filling::kOnes, Filling::kSmall};

/// The plan with all undefined bytes filled. It has none then.
Plan FillUndefined(Plan plan, Filling filling, uint64_t seed);

}  // namespace cupel::plan
