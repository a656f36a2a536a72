// SPDX-License-Identifier: Apache-2.0
#include "os/lines.h"

#include <fmt/format.h>

#include <algorithm>

namespace cupel::os {

void Lines::Feed(std::string_view bytes) {
  std::string plain;
  if (ends_ == LineEnds::kAny) {
    for (const char c : bytes) {
      if (c != '\n' || !after_cr_) plain += c == '\r' ? '\n' : c;
      after_cr_ = c == '\r';
    }
    bytes = plain;
  }
  if (is_skipping_) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    is_skipping_ = false;
  }
  bytes_ += bytes;
}

void Lines::Skip() {
  const size_t end = bytes_.find('\n', start_);
  is_skipping_ = end == std::string::npos;
  bytes_.erase(0, is_skipping_ ? bytes_.size() : end + 1);
  start_ = searched_ = 0;
}

Result<std::optional<std::string>> Lines::Next() {
  const size_t end = bytes_.find('\n', std::max(start_, searched_));
  if (std::min(end, bytes_.size()) - start_ > longest_) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a line is longer than {} bytes", longest_));
  }
  if (end == std::string::npos) {
    bytes_.erase(0, start_);
    start_ = 0;
    searched_ = bytes_.size();
    return std::optional<std::string>();
  }
  std::string line = bytes_.substr(start_, end - start_);
  start_ = searched_ = end + 1;
  return std::optional<std::string>(std::move(line));
}

}  // namespace cupel::os
