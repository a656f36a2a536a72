// The secret of a timed replay: input elements that no earlier replay has seen, so that a
// remembered result is wrong.
// SPDX-License-Identifier: Apache-2.0
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

/// Changes some elements of floating-point arguments, more in larger arguments. Each gets the value
/// of a different element of the same argument, so it stays in the domain that the task draws from.
/// Empty if no argument has two different elements.
std::vector<engine::Change> DrawSecrets(const task::Case& wanted, Random& random);

/// Changes one random element of a floating-point argument to NaN; larger arguments are more
/// likely. Leaves out arguments that the function changes: it may overwrite them unread. Returns
/// nothing if an argument has integers, or if no argument has two or more elements.
std::optional<engine::Change> DrawNan(const task::Case& wanted, Random& random);

/// The storages of a case's tensors, with some elements changed. Unchanged storages are borrowed.
class ChangedArguments {
 public:
  explicit ChangedArguments(const task::Case& wanted);
  ChangedArguments(const ChangedArguments&) = delete;
  ChangedArguments& operator=(const ChangedArguments&) = delete;

  /// Undoes the changes of the previous call and applies these. The first change of an argument
  /// copies it.
  const std::vector<std::span<const std::byte>>& Change(const std::vector<engine::Change>& changes);

 private:
  /// Applies a change and returns the previous bytes.
  std::string Exchange(const engine::Change& change);

  std::map<size_t, std::vector<std::byte>> copies_;  // by argument
  std::vector<engine::Change> back_;
  std::vector<std::span<const std::byte>> storages_;
};

}  // namespace cupel::assay
