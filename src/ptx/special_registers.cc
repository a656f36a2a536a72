// The predefined registers of PTX ISA 9.0, chapter "Special Registers".
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/parse_number.h"
#include "ptx/names.h"

namespace cupel::ptx {
namespace {

constexpr auto kVectors = std::to_array<std::string_view>({
    "cluster_ctaid",
    "cluster_nctaid",
    "clusterid",
    "ctaid",
    "nclusterid",
    "nctaid",
    "ntid",
    "tid",
});

constexpr auto kScalars = std::to_array<std::string_view>({
    "aggr_smem_size",
    "clock",
    "clock64",
    "clock_hi",
    "cluster_ctarank",
    "cluster_nctarank",
    "current_graph_exec",
    "dynamic_smem_size",
    "globaltimer",
    "globaltimer_hi",
    "globaltimer_lo",
    "gridid",
    "is_explicit_cluster",
    "laneid",
    "lanemask_eq",
    "lanemask_ge",
    "lanemask_gt",
    "lanemask_le",
    "lanemask_lt",
    "nsmid",
    "nwarpid",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_cap",
    "reserved_smem_offset_end",
    "smid",
    "total_smem_size",
    "warpid",
});

/// True if `name` is prefix + a number below `count` without leading zeros + suffix.
bool IsNumbered(std::string_view name, std::string_view prefix, int count,
                std::string_view suffix = "") {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  if (name.size() <= prefix.size() + suffix.size()) return false;
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  const int number = ParseNumber<int>(name).value_or(-1);
  return number >= 0 && number < count && (name.size() == 1 || name[0] != '0');
}

}  // namespace

bool IsSpecialRegister(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot != std::string_view::npos) {
    const std::string_view part = name.substr(dot + 1);
    return (part == "x" || part == "y" || part == "z" || part == "w") &&
           std::binary_search(kVectors.begin(), kVectors.end(), name.substr(0, dot));
  }
  return std::binary_search(kScalars.begin(), kScalars.end(), name) ||
         IsNumbered(name, "envreg", 32) || IsNumbered(name, "pm", 8) ||
         IsNumbered(name, "pm", 8, "_64") || IsNumbered(name, "reserved_smem_offset_", 2);
}

}  // namespace cupel::ptx
