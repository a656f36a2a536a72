// SPDX-License-Identifier: Apache-2.0
#include "record/streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cupel::record {
namespace {

void Merge(Frontier& into, const Frontier& from) {
  Frontier merged;
  merged.reserve(into.size() + from.size());
  std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(merged));
  into = std::move(merged);
}

}  // namespace

Streams::Streams() {
  streams_[kLegacyStream] = {};
  streams_[kPerThreadStream] = {};
}

void Streams::BeginCall(uint64_t callers) {
  for (auto& [handle, stream] : streams_) stream.frontier.clear();
  for (auto& [handle, event] : events_) {
    if (event.capture < 0) event.frontier.clear();
  }
  host_.clear();
  callers_ = callers;
  Of(callers).frontier = {kStart};
}

uint64_t Streams::CreateStream(bool blocking, int priority) {
  next_handle_ += 16;
  Stream stream;
  stream.blocking = blocking;
  stream.priority = priority;
  streams_[next_handle_] = std::move(stream);
  return next_handle_;
}

bool Streams::DestroyStream(uint64_t stream) {
  if (stream <= kPerThreadStream || !Exists(stream)) return false;
  // Its work still finishes, and End() must include it.
  const Stream& old = Of(stream);
  if (old.blocking) Merge(Of(kLegacyStream).frontier, old.frontier);
  streams_.erase(stream);
  return true;
}

Frontier Streams::Depend(uint64_t stream) const {
  const Stream& own = Of(stream);
  Frontier frontier = own.frontier;
  Merge(frontier, host_);
  if (Canonical(stream) == kLegacyStream) {
    for (const auto& [handle, other] : streams_) {
      if (other.blocking) Merge(frontier, other.frontier);
    }
  } else if (own.blocking) {
    Merge(frontier, Of(kLegacyStream).frontier);
  }
  return frontier;
}

void Streams::Done(uint64_t stream, Frontier nodes) {
  if (nodes.empty()) return;
  if (Canonical(stream) == kLegacyStream) {
    for (auto& [handle, other] : streams_) {
      if (other.blocking) other.frontier.clear();
    }
  }
  Of(stream).frontier = std::move(nodes);
}

uint64_t Streams::CreateEvent() {
  next_handle_ += 16;
  events_[next_handle_] = {};
  return next_handle_;
}

void Streams::Record(uint64_t event, uint64_t stream) {
  Event& target = events_.at(event);
  const Stream& source = Of(stream);
  target.capture = source.capture;
  target.frontier = source.capture >= 0 ? source.capture_frontier : Depend(stream);
}

void Streams::Wait(uint64_t stream, uint64_t event) {
  const Event& source = events_.at(event);
  Stream& target = Of(stream);
  if (source.capture >= 0) {
    if (target.capture < 0) {
      target.capture = source.capture;
      target.capture_frontier.clear();
    }
    Merge(target.capture_frontier, source.frontier);
  } else {
    // Blocking streams also wait for the legacy stream: Depend() reads its frontier.
    Merge(target.frontier, source.frontier);
  }
}

void Streams::SynchronizeStream(uint64_t stream) { Merge(host_, Depend(stream)); }

void Streams::SynchronizeEvent(uint64_t event) { Merge(host_, events_.at(event).frontier); }

void Streams::SynchronizeAll() {
  for (const auto& [handle, stream] : streams_) Merge(host_, stream.frontier);
}

Frontier Streams::End() const { return Depend(callers_); }

bool Streams::BeginCapture(uint64_t stream, int capture) {
  Stream& target = Of(stream);
  if (Canonical(stream) == kLegacyStream || target.capture >= 0) return false;
  target.capture = capture;
  target.began_capture = true;
  target.capture_frontier.clear();
  return true;
}

std::optional<int> Streams::CaptureOf(uint64_t stream) const {
  const Stream& own = Of(stream);
  return own.capture >= 0 ? std::optional<int>(own.capture) : std::nullopt;
}

Frontier Streams::CaptureDepend(uint64_t stream) const { return Of(stream).capture_frontier; }

void Streams::CaptureDone(uint64_t stream, int node) { Of(stream).capture_frontier = {node}; }

bool Streams::AnyCapture() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& item) { return item.second.capture >= 0; });
}

std::optional<Streams::Captured> Streams::EndCapture(uint64_t stream) {
  Stream& origin = Of(stream);
  if (!origin.began_capture) return std::nullopt;
  Captured captured{origin.capture, origin.capture_frontier, {}};
  for (auto& [handle, other] : streams_) {
    if (other.capture != captured.capture) continue;
    Merge(captured.all_ends, other.capture_frontier);
    other.capture = -1;
    other.began_capture = false;
    other.capture_frontier.clear();
  }
  // Events recorded in the capture are invalid outside it.
  for (auto& [handle, event] : events_) {
    if (event.capture == captured.capture) event = {};
  }
  return captured;
}

}  // namespace cupel::record
