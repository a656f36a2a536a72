// The secret of a timed replay: one element of the inputs that no earlier replay has seen, so that
// an answer remembered from earlier is a wrong one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "base/random.h"
#include "engine/timing.h"
#include "task/case.h"

namespace cupel::assay {

/// One element of a floating-point argument gets the value of another, the largest of some that are
/// looked at: it stays in the domain that the task draws from. Nothing when no argument has two
/// elements.
std::optional<engine::Change> DrawSecret(const task::Case& wanted, Random& random);

/// The storages of the case's tensors with the changes made; those not changed are borrowed.
class ChangedArguments {
 public:
  ChangedArguments(const task::Case& wanted, const std::vector<engine::Change>& changes);
  const std::vector<std::span<const std::byte>>& storages() const { return storages_; }

 private:
  std::vector<std::vector<std::byte>> copies_;
  std::vector<std::span<const std::byte>> storages_;
};

}  // namespace cupel::assay
