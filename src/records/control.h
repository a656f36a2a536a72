// A negative control: a wrong answer at one output that the judge must reject (docs/judging.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cupel::records {

/// The other outputs are correct.
struct Control {
  std::string name;      // stable: "zeros", "tail_rows_zero" …
  size_t output = 0;     // position in the result
  std::string skipped;   // why it was not tried; empty if it was tried
  double distance = 0;   // its error as a multiple of the limit
  int64_t elements = 0;  // number compared; only the last rows of a large output

  /// True if the judge accepts this wrong answer.
  bool Passes() const { return skipped.empty() && !(distance > 1); }
};

}  // namespace cupel::records
