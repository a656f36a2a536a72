// What a use case reports while it works. cli shows it on a terminal; the MCP server may ignore it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "assay/assay.h"
#include "evolve/evaluator.h"
#include "term/progress.h"

namespace cupel::app {

/// Ignores everything. Subclasses must be thread-safe: several threads may report at once.
class Events {
 public:
  Events() = default;
  virtual ~Events() = default;
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  /// The current step in judging or timing one kernel.
  virtual void Show(const assay::Progress&) {}
  /// The state of a search.
  virtual void Show(const evolve::RunProgress&) {}
  /// How much of some work is done.
  virtual void Show(const term::ProgressState&) {}
  /// A remark for the user, one line. Hostile text in it is not escaped.
  virtual void Note(std::string_view) {}
};

}  // namespace cupel::app
