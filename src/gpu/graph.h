// A plan as a CUDA graph between two event nodes: what lies between the events is device time, free
// of what launching the graph costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "gpu/replay.h"

namespace cupel::gpu {

class TimedGraph {
 public:
  /// Captures `before` (may be empty), an event, the plan's nodes in the order that their
  /// dependencies ask for, an event. `refusal` says what stands in the way; the graph is empty
  /// then. All kernels must have run once: a capture cannot load code. Borrows all.
  static Result<TimedGraph> Capture(const Device& device, const plan::Plan& plan, Replay& replay,
                                    const std::function<Status()>& before, Refusal* refusal);
  /// The same around one call that enqueues.
  static Result<TimedGraph> Capture(const Device& device, const std::function<Status()>& before,
                                    const std::function<Status()>& between);
  TimedGraph(TimedGraph&& other) noexcept;
  TimedGraph& operator=(TimedGraph&& other) noexcept;
  ~TimedGraph();

  /// Enqueues a replay.
  Status Launch() const;
  /// Between the events of a replay that has ended.
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
