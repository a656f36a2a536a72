// Parses server-sent events as defined by the HTML standard, from a byte stream that may be split
// anywhere. Tested by sse_test.cc and fuzz/fuzz_sse.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "os/lines.h"

namespace cupel::llm {

/// Maximum size of the data of one event.
inline constexpr size_t kMaxEventBytes = 16u << 20;

/// `event` is "message" if the stream gives none. Ignores comments (they keep a connection alive),
/// `id` and `retry`. Not thread-safe.
class SseParser {
 public:
  /// Receives an event. Returns false to stop reading.
  using Sink = std::function<bool(std::string_view event, std::string_view data)>;

  explicit SseParser(Sink sink, size_t max_event_bytes = kMaxEventBytes)
      : sink_(std::move(sink)),
        max_bytes_(max_event_bytes),
        lines_(max_event_bytes, os::LineEnds::kAny) {}

  /// Returns false if the sink stopped. Error kInvalidArgument: a line or an event is too large.
  Result<bool> Feed(std::string_view bytes);
  /// Call at the proper end of the stream. Dispatches the last event even without a final empty
  /// line, which some servers omit.
  Result<bool> Finish();

 private:
  Result<bool> Line(std::string_view line);
  bool Dispatch();

  Sink sink_;
  size_t max_bytes_;
  os::Lines lines_;
  std::string event_, data_;
  bool has_data_ = false, at_start_ = true, stopped_ = false;
};

}  // namespace cupel::llm
