// SPDX-License-Identifier: Apache-2.0
#include "llm/sse.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::llm {
namespace {

tl::unexpected<Error> TooLarge(size_t limit) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("an event of the answer is larger than {} bytes", limit));
}

}  // namespace

Result<bool> SseParser::Feed(std::string_view bytes) {
  if (!stopped_) lines_.Feed(bytes);
  while (!stopped_) {
    const auto line = lines_.Next();
    if (!line) return TooLarge(max_bytes_);
    if (!*line) break;
    TRY(Line(**line));
  }
  return !stopped_;
}

Result<bool> SseParser::Finish() {
  if (stopped_) return false;
  if (!lines_.rest().empty()) TRY(Line(lines_.rest()));
  return Dispatch();
}

Result<bool> SseParser::Line(std::string_view line) {
  if (at_start_ && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  at_start_ = false;
  if (line.empty()) return Dispatch();
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    event_ = value;
  } else if (field == "data") {
    if (data_.size() + value.size() + 1 > max_bytes_) return TooLarge(max_bytes_);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  return true;
}

bool SseParser::Dispatch() {
  if (has_data_ && !stopped_) {
    stopped_ = !sink_(event_.empty() ? std::string_view("message") : event_, data_);
  }
  event_.clear();
  data_.clear();
  has_data_ = false;
  return !stopped_;
}

}  // namespace cupel::llm
