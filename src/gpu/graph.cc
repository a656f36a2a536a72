// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/operators.h"

namespace cupel::gpu {
namespace {

constexpr int kRelaxed = 2;               // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kExternal = 1;         // CU_EVENT_RECORD_EXTERNAL: records in a graph node
constexpr unsigned kSetDependencies = 1;  // CU_STREAM_SET_CAPTURE_DEPENDENCIES

using Nodes = std::vector<CuGraphNode>;

/// The nodes that the next captured work would wait for.
Result<Nodes> Tips(const Device& device) {
  int status = 0;
  uint64_t id = 0;
  CuGraph graph = nullptr;
  const CuGraphNode* nodes = nullptr;
  size_t count = 0;
  const Driver& driver = device.driver();
  TRY(driver.Check(driver.capture_info(device.stream(), &status, &id, &graph, &nodes, &count),
                   "capturing a graph"));
  return Nodes(nodes, nodes + count);
}

Status SetTips(const Device& device, Nodes nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  const Driver& driver = device.driver();
  return driver.Check(
      driver.capture_dependencies(device.stream(), nodes.data(), nodes.size(), kSetDependencies),
      "capturing a graph");
}

/// Whether each node waits for the one before it. PyTorch's operators use the same memory one after
/// the other, so they make a plan serial.
bool IsSerial(const plan::Plan& plan) {
  if (plan::HasOperators(plan)) return true;
  for (size_t i = static_cast<size_t>(plan.prepared) + 1; i < plan.nodes.size(); ++i) {
    const std::vector<int>& after = plan.nodes[i].after;
    if (std::find(after.begin(), after.end(), static_cast<int>(i) - 1) == after.end()) return false;
  }
  return true;
}

/// Enqueues the nodes after the prepared ones, so that each waits only for the nodes that the plan
/// names.
Status EnqueueAll(const Device& device, const plan::Plan& plan, Replay& replay, Refusal* refusal) {
  const bool serial = IsSerial(plan);
  TRY_ASSIGN(const Nodes start, Tips(device));
  std::vector<Nodes> ends(plan.nodes.size());
  std::vector<bool> followed(plan.nodes.size(), false);
  const auto first = static_cast<size_t>(plan.prepared);
  for (size_t i = first; i < plan.nodes.size(); ++i) {
    if (!serial) {
      Nodes before;
      for (const int index : plan.nodes[i].after) {
        const auto earlier = static_cast<size_t>(index);
        before.insert(before.end(), ends[earlier].begin(), ends[earlier].end());
        followed[earlier] = true;
      }
      TRY(SetTips(device, before.empty() ? start : before));
    }
    TRY_ASSIGN(*refusal, replay.Enqueue(plan.nodes[i]));
    if (!refusal->ok()) return {};
    if (!serial) {
      TRY_ASSIGN(ends[i], Tips(device));
    }
  }
  if (serial) return {};
  Nodes last;
  for (size_t i = first; i < ends.size(); ++i) {
    if (!followed[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
  }
  return SetTips(device, last.empty() ? start : last);
}

}  // namespace

Status TimedGraph::Begin(const std::function<Status()>& before) {
  const Driver& driver = device_->driver();
  TRY(driver.Check(driver.event_create(&begin_, 0), "creating an event"));
  TRY(driver.Check(driver.event_create(&end_, 0), "creating an event"));
  TRY(driver.Check(driver.capture_begin(device_->stream(), kRelaxed), "capturing a graph"));
  if (before) TRY(before());
  return driver.Check(driver.event_record(begin_, device_->stream(), kExternal),
                      "capturing an event");
}

Status TimedGraph::End() {
  const Driver& driver = device_->driver();
  TRY(driver.Check(driver.event_record(end_, device_->stream(), kExternal), "capturing an event"));
  TRY(driver.Check(driver.capture_end(device_->stream(), &graph_), "capturing a graph"));
  return driver.Check(driver.graph_instantiate(&exec_, graph_, 0), "creating a graph");
}

Result<TimedGraph> TimedGraph::Capture(const Device& device, const std::function<Status()>& before,
                                       const std::function<Status()>& between) {
  TimedGraph graph(device);
  Status done = graph.Begin(before);
  if (done) done = between();
  if (done) done = graph.End();
  if (!done) {
    // End the capture in any case, because the stream must not stay in capture mode.
    if (graph.graph_ == nullptr) device.driver().capture_end(device.stream(), &graph.graph_);
    return tl::unexpected<Error>(done.error());
  }
  return graph;
}

Result<TimedGraph> TimedGraph::Capture(const Device& device, const plan::Plan& plan, Replay& replay,
                                       const std::function<Status()>& before, Refusal* refusal) {
  auto graph = Capture(device, before, [&]() -> Status {
    TRY(EnqueueAll(device, plan, replay, refusal));
    // A refusal by the driver invalidates the capture.
    if (!refusal->ok()) return Fail(ErrorCode::kUnsupported, "the plan cannot be captured");
    return {};
  });
  if (!refusal->ok()) return TimedGraph(device);
  return graph;
}

TimedGraph::TimedGraph(TimedGraph&& other) noexcept
    : device_(other.device_),
      begin_(std::exchange(other.begin_, nullptr)),
      end_(std::exchange(other.end_, nullptr)),
      graph_(std::exchange(other.graph_, nullptr)),
      exec_(std::exchange(other.exec_, nullptr)) {}

TimedGraph& TimedGraph::operator=(TimedGraph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(graph_, other.graph_);
  std::swap(exec_, other.exec_);
  return *this;
}

TimedGraph::~TimedGraph() {
  const Driver& driver = device_->driver();
  if (exec_ != nullptr) driver.graph_exec_destroy(exec_);
  if (graph_ != nullptr) driver.graph_destroy(graph_);
  for (const CuEvent event : {begin_, end_}) {
    if (event != nullptr) driver.event_destroy(event);
  }
}

Status TimedGraph::Launch() const {
  const Driver& driver = device_->driver();
  return driver.Check(driver.graph_launch(exec_, device_->stream()), "launching a graph");
}

Result<double> TimedGraph::Microseconds() const {
  float milliseconds = 0;
  const Driver& driver = device_->driver();
  TRY(driver.Check(driver.event_elapsed(&milliseconds, begin_, end_), "reading the clock"));
  return static_cast<double>(milliseconds) * 1e3;
}

}  // namespace cupel::gpu
