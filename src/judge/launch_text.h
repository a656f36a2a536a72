// What one launch spends its time on, for the person or program that writes the next kernel: first
// the bottleneck, then the lines that cause it, then waste.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "judge/remarks.h"

namespace cupel::judge {

inline constexpr int kProfileWidth = 100;  // columns

/// Lines of the candidate's source file, to quote from.
class SourceText {
 public:
  SourceText() = default;
  SourceText(const std::string& file_name, const std::string& text) { Add(file_name, text); }
  /// Adds a file. `file_name` is relative: "csrc/kernel.cu".
  void Add(const std::string& file_name, const std::string& text);
  /// The trimmed line; empty if it belongs to another file.
  std::string Line(const std::string& file, int line) const;

 private:
  std::map<std::string, std::vector<std::string>> lines_;  // by file name
};

/// "kernel<64>" of "void kernel<64>(float*, int)".
std::string ShortName(const std::string& kernel);
/// "8", "8x4", "8x4x2".
std::string Dims(const plan::Dim3& dim);
/// "45 %" of 0.45.
std::string Percent(double share);
/// One line, and a second that quotes the source if it is known.
std::string RemarkText(const Remark& remark, const SourceText& source);
/// Whole lines about a launch on `device`.
std::string LaunchText(const records::LaunchCounters& launch, const device::Description& device,
                       const SourceText& source);

}  // namespace cupel::judge
