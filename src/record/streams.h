// Which work waits for which other work: CUDA's stream semantics (legacy default stream, events,
// capture), translated into the "after" lists of a plan. Used in the recorder child only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace cupel::record {

/// Sorted node indices. kStart means the caller's work before the call.
using Frontier = std::vector<int>;
inline constexpr int kStart = -1;

inline constexpr uint64_t kLegacyStream = 0;
inline constexpr uint64_t kPerThreadStream = 2;  // the value of cudaStreamPerThread

class Streams {
 public:
  Streams();
  /// Starts a call: all earlier work has finished, and the caller's work is on its stream.
  void BeginCall(uint64_t callers = kLegacyStream);

  uint64_t CreateStream(bool blocking, int priority);
  bool DestroyStream(uint64_t stream);
  bool Exists(uint64_t stream) const { return streams_.contains(Canonical(stream)); }
  bool IsBlocking(uint64_t stream) const { return streams_.at(Canonical(stream)).blocking; }
  int Priority(uint64_t stream) const { return streams_.at(Canonical(stream)).priority; }

  /// What new work on `stream` waits for.
  Frontier Depend(uint64_t stream) const;
  /// New work on `stream` ends in these nodes.
  void Done(uint64_t stream, Frontier nodes);

  uint64_t CreateEvent();
  bool DestroyEvent(uint64_t event) { return events_.erase(event) > 0; }
  bool EventExists(uint64_t event) const { return events_.contains(event); }
  void Record(uint64_t event, uint64_t stream);
  void Wait(uint64_t stream, uint64_t event);

  /// The host waits, so all work issued later runs afterwards.
  void SynchronizeStream(uint64_t stream);
  void SynchronizeEvent(uint64_t event);
  void SynchronizeAll();

  /// What the caller's next work on its stream waits for.
  Frontier End() const;

  // ---- capture: the indices are nodes of the captured graph ----
  bool BeginCapture(uint64_t stream, int capture);
  /// The capture that `stream` belongs to, if any.
  std::optional<int> CaptureOf(uint64_t stream) const;
  Frontier CaptureDepend(uint64_t stream) const;
  void CaptureDone(uint64_t stream, int node);
  bool AnyCapture() const;
  struct Captured {
    int capture = 0;
    Frontier end;       // of the stream that began it
    Frontier all_ends;  // of every stream that joined
  };
  /// nullopt if `stream` did not begin a capture.
  std::optional<Captured> EndCapture(uint64_t stream);

 private:
  struct Stream {
    bool blocking = true;
    int priority = 0;
    Frontier frontier;
    int capture = -1;
    bool began_capture = false;
    Frontier capture_frontier;
  };
  struct Event {
    Frontier frontier;
    int capture = -1;
  };
  static uint64_t Canonical(uint64_t stream) { return stream == 1 ? kLegacyStream : stream; }
  Stream& Of(uint64_t stream) { return streams_.at(Canonical(stream)); }
  const Stream& Of(uint64_t stream) const { return streams_.at(Canonical(stream)); }

  std::map<uint64_t, Stream> streams_;
  std::map<uint64_t, Event> events_;
  uint64_t callers_ = kLegacyStream;
  Frontier host_;  // what the host has waited for in this call
  uint64_t next_handle_ = 0x5000;
};

}  // namespace cupel::record
