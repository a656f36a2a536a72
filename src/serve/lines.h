// Lines out of a byte stream, bounded: what exceeds the bound is an Error, not memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::serve {

class Lines {
 public:
  explicit Lines(size_t longest) : longest_(longest) {}

  void Feed(std::string_view bytes);
  /// The next whole line without its end. An Error when a line is longer than allowed, whole or
  /// not; nothing can be read after it, unless by Skip().
  Result<std::optional<std::string>> Next();
  /// After an Error: drops that line, what of it is still to come included.
  void Skip();
  /// The beginning of a line that has not ended.
  std::string_view rest() const { return std::string_view{bytes_}.substr(start_); }

 private:
  size_t longest_;
  std::string bytes_;
  size_t start_ = 0, searched_ = 0;
  bool is_skipping_ = false;
};

}  // namespace cupel::serve
