// A profile for people: the bottleneck first, then the lines that cause it, then a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"

namespace cupel::cli {

/// Lines of the candidate's source file, to quote from.
class SourceText {
 public:
  SourceText() = default;
  SourceText(std::string file_name, const std::string& text);
  /// Trimmed; empty when it is of another file.
  std::string Line(const std::string& file, int line) const;

 private:
  std::string file_name_;
  std::vector<std::string> lines_;
};

/// Whole lines about the launches of one call on `device`.
std::string ProfileText(const engine::Counters& counters, const device::Description& device,
                        const SourceText& source);

}  // namespace cupel::cli
