// SPDX-License-Identifier: Apache-2.0
#include "report/objective_kind.h"

#include <fmt/format.h>

namespace cupel::report {
namespace {

constexpr ObjectiveKind kKinds[] = {
    {"estimated_us", " us", "estimated time of one call", "emulator estimates"},
    {"median_us", " us", "measured time of one call, cold", "measured on a GPU"},
    {"energy_mj", " mJ", "measured energy of one call, warm", "measured on a GPU"},
    {"mix", "", "root of microseconds times millijoules", "measured on a GPU"}};

}  // namespace

const ObjectiveKind& ObjectiveKindNamed(std::string_view name) {
  for (const ObjectiveKind& kind : kKinds) {
    if (kind.name == name) return kind;
  }
  return kKinds[0];
}

std::string ObjectiveText(std::string_view kind, double value) {
  const ObjectiveKind& known = ObjectiveKindNamed(kind);
  return fmt::format("{:.3f}{}{}", value, known.unit, known.estimate() ? " (estimate)" : "");
}

}  // namespace cupel::report
