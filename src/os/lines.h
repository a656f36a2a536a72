// Splits a byte stream into lines of bounded length: the framing of all text streams (JSON lines of
// Python children and workers, the Model Context Protocol, server-sent events). A longer line is an
// Error. Native child processes use os/frames.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cupel::os {

enum class LineEnds {
  kLf,
  kAny,  // LF, CR or CR LF
};

class Lines {
 public:
  explicit Lines(size_t longest, LineEnds ends = LineEnds::kLf) : longest_(longest), ends_(ends) {}

  void Feed(std::string_view bytes);
  /// The next complete line without its line end; nullopt if there is none yet. Errors: the line is
  /// too long, complete or not. Call Skip() before reading the next line.
  Result<std::optional<std::string>> Next();
  /// After an Error: drops that line, including the part that has not arrived yet.
  void Skip();
  /// The start of a line that is not complete yet.
  std::string_view rest() const { return std::string_view{bytes_}.substr(start_); }

 private:
  size_t longest_;
  LineEnds ends_;
  std::string bytes_;
  size_t start_ = 0, searched_ = 0;
  bool is_skipping_ = false, after_cr_ = false;
};

}  // namespace cupel::os
