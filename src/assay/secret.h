// The secret of a timed replay: elements of the inputs that no earlier replay has seen, so that an
// answer remembered from earlier is a wrong one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/timing.h"
#include "task/case.h"

namespace cupel::assay {

/// Some elements of floating-point arguments, more of larger arguments, each get the value of
/// another one that differs: they stay in the domain that the task draws from. Empty when no
/// argument has two different elements.
std::vector<engine::Change> DrawSecrets(const task::Case& wanted, Random& random);

/// An element of a floating-point argument, drawn by size, becomes NaN. Nothing when an argument
/// has integers or no elements to speak of.
std::optional<engine::Change> DrawNan(const task::Case& wanted, Random& random);

/// The storages of a case's tensors, some elements of which are changed; what was never changed is
/// borrowed.
class ChangedArguments {
 public:
  explicit ChangedArguments(const task::Case& wanted);
  ChangedArguments(const ChangedArguments&) = delete;
  ChangedArguments& operator=(const ChangedArguments&) = delete;

  /// Makes these changes and takes those of the call before back. The first change of an argument
  /// copies it.
  const std::vector<std::span<const std::byte>>& Change(const std::vector<engine::Change>& changes);

 private:
  /// What was there before.
  std::string Exchange(const engine::Change& change);

  std::map<size_t, std::vector<std::byte>> copies_;  // by argument
  std::vector<engine::Change> back_;
  std::vector<std::span<const std::byte>> storages_;
};

}  // namespace cupel::assay
