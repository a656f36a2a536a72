// Memory that a candidate sets up in its first call and keeps: a table, a counter that is zero
// between calls. Plans set it up again (Plan::prepared), which is right only if calls leave it as
// they find it. Otherwise it is state, and calls must not read what they have not written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "engine/run.h"
#include "plan/plan.h"

namespace cupel::assay {

class KeptMemory {
 public:
  /// Of a plan whose prepared nodes are all copies and fills from the host (those of compiled
  /// candidates); else nothing is watched.
  explicit KeptMemory(const plan::Plan& plan);

  /// False if there is nothing to watch.
  bool is_watched() const { return !contents_.empty(); }
  /// True if there is too much to watch: it counts as changed.
  bool is_unwatchable() const { return is_unwatchable_; }
  /// The plan, which also returns the bytes that were set up, after its outputs.
  plan::Plan Watching(const plan::Plan& plan) const;
  /// Removes these bytes from `run`. False if one of them has changed.
  bool Check(engine::Run& run) const;

 private:
  struct Content {
    std::vector<std::byte> bytes;
    std::vector<bool> is_set;  // by the host, and no device address
  };
  std::map<int, Content> contents_;  // by buffer
  bool is_unwatchable_ = false;
};

/// The plan without its prepared nodes.
plan::Plan WithoutPrepared(plan::Plan plan);

}  // namespace cupel::assay
