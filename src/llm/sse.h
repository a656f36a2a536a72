// Server-sent events, as the HTML standard defines them: a stream of bytes, split anywhere, becomes
// events. Tested by sse_test.cc and fuzz/fuzz_sse.cc. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::llm {

/// One event's data may not be larger.
inline constexpr size_t kMaxEventBytes = 16u << 20;

/// `event` is "message" where the stream names none. Comments are dropped (they keep a connection
/// alive); `id` and `retry` mean nothing here. Not thread-safe.
class SseParser {
 public:
  /// Takes an event; false ends the reading.
  using Sink = std::function<bool(std::string_view event, std::string_view data)>;

  explicit SseParser(Sink sink, size_t max_event_bytes = kMaxEventBytes)
      : sink_(std::move(sink)), max_bytes_(max_event_bytes) {}

  /// Error kInvalidArgument: a line or an event is too large. False: the sink has had enough.
  Result<bool> Feed(std::string_view bytes);
  /// The stream ended as it should: what stands before its end counts as an event although no empty
  /// line follows, as some servers leave it out.
  Result<bool> Finish();

 private:
  Result<bool> Line(std::string_view line);
  bool Dispatch();

  Sink sink_;
  size_t max_bytes_;
  std::string line_, event_, data_;
  bool has_data_ = false, after_cr_ = false, at_start_ = true, stopped_ = false;
};

}  // namespace cupel::llm
