// Describes for users what a run minimises.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cupel::report {

struct ObjectiveKind {
  std::string_view name;         // an archive's objective_kind
  std::string_view unit;         // " us"; may be empty
  std::string_view of_one_call;  // "measured time of one call, cold"
  std::string_view times_are;    // "emulator estimates"
  bool estimate() const { return name == "estimated_us"; }
  bool is_time() const { return unit == " us"; }
};

/// The kind with this name; estimated microseconds if there is none.
const ObjectiveKind& ObjectiveKindNamed(std::string_view name);

/// "8.273 us (estimate)", "5.402 us", "1.186 mJ".
std::string ObjectiveText(std::string_view kind, double value);

}  // namespace cupel::report
