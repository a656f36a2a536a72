// A plan as a CUDA graph between two event nodes. The time between the events is device time
// without the cost of launching the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "gpu/replay.h"

namespace cupel::gpu {

class TimedGraph {
 public:
  /// Captures `before` (may be empty), an event, the plan's nodes after the prepared ones in the
  /// order of their dependencies, an event. If the plan cannot be captured, `refusal` has the
  /// reason and the graph is empty. All kernels must have run once, because a capture cannot load
  /// code. Borrows its arguments.
  static Result<TimedGraph> Capture(const Device& device, const plan::Plan& plan, Replay& replay,
                                    const std::function<Status()>& before, Refusal* refusal);
  /// The same for the work that `between` enqueues.
  static Result<TimedGraph> Capture(const Device& device, const std::function<Status()>& before,
                                    const std::function<Status()>& between);
  TimedGraph(TimedGraph&& other) noexcept;
  TimedGraph& operator=(TimedGraph&& other) noexcept;
  ~TimedGraph();

  /// Enqueues a replay.
  Status Launch() const;
  /// The time between the events of a replay that has ended.
  Result<double> Microseconds() const;

 private:
  explicit TimedGraph(const Device& device) : device_(&device) {}
  Status Begin(const std::function<Status()>& before);
  Status End();

  const Device* device_;
  CuEvent begin_ = nullptr, end_ = nullptr;
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
};

}  // namespace cupel::gpu
