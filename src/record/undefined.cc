// SPDX-License-Identifier: Apache-2.0
#include "record/undefined.h"

#include <algorithm>
#include <variant>

namespace cupel::record {
namespace {

constexpr char kPattern = static_cast<char>(0xfe);

/// Those of the call itself: prepared nodes come before.
template <typename Plan>
auto LaunchesOf(Plan& plan) {
  std::vector<decltype(std::get_if<plan::Launch>(&plan.nodes[0].work))> launches;
  for (auto i = static_cast<size_t>(plan.prepared); i < plan.nodes.size(); ++i) {
    if (auto* launch = std::get_if<plan::Launch>(&plan.nodes[i].work)) launches.push_back(launch);
  }
  return launches;
}

void FindIn(uint32_t launch, const std::string& pattern, const std::string& zeros,
            Undefined& found) {
  const size_t bytes = std::min(pattern.size(), zeros.size());
  bool continues = false;
  for (uint32_t at = 0; at < bytes; ++at) {
    const bool is_undefined = pattern[at] == kPattern && zeros[at] == 0;
    if (is_undefined && continues) ++found.back().range.bytes;
    if (is_undefined && !continues) found.push_back({launch, {at, 1}});
    continues = is_undefined;
  }
}

}  // namespace

Undefined FindUndefined(const plan::Plan& pattern, const plan::Plan& zeros) {
  const auto ours = LaunchesOf(pattern), theirs = LaunchesOf(zeros);
  Undefined found;
  for (uint32_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    FindIn(i, ours[i]->parameters, theirs[i]->parameters, found);
  return found;
}

void SetToZero(const plan::ByteRange& range, std::string& bytes) {
  const size_t at = std::min<size_t>(range.at, bytes.size());
  const size_t count = std::min<size_t>(range.bytes, bytes.size() - at);
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), count, '\0');
}

void MarkUndefined(const Undefined& undefined, plan::Plan& plan) {
  const auto launches = LaunchesOf(plan);
  for (const UndefinedBytes& bytes : undefined) {
    if (bytes.launch >= launches.size()) continue;
    plan::Launch& launch = *launches[bytes.launch];
    launch.undefined.push_back(bytes.range);
    SetToZero(bytes.range, launch.parameters);
  }
}

}  // namespace cupel::record
