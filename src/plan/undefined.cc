// SPDX-License-Identifier: Apache-2.0
#include "plan/undefined.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace cupel::plan {
namespace {

constexpr size_t kWord = 4;
constexpr uint64_t kLargestSmall = 4;

std::string Contents(const UndefinedBytes& range, Filling filling, Random& random) {
  std::string bytes = range.found;
  switch (filling) {
    case Filling::kFound:
      break;
    case Filling::kZeros:
      std::ranges::fill(bytes, '\0');
      break;
    case Filling::kOnes:
      std::ranges::fill(bytes, '\xff');
      break;
    case Filling::kRandom:
      for (char& byte : bytes) byte = static_cast<char>(random());
      break;
    case Filling::kSmall:
      for (size_t i = 0; i < bytes.size(); ++i) {
        const bool is_first = (range.at + i) % kWord == 0;
        bytes[i] = is_first ? static_cast<char>(1 + random.Below(kLargestSmall)) : '\0';
      }
      break;
  }
  return bytes;
}

}  // namespace

uint64_t UndefinedIn(const Node& node) {
  uint64_t count = 0;
  VisitHostBytes(node, [&](const std::string&, const std::vector<UndefinedBytes>& undefined) {
    for (const UndefinedBytes& range : undefined) count += range.found.size();
  });
  return count;
}

bool HasUndefined(const Plan& plan) {
  return std::ranges::any_of(plan.nodes, [](const Node& node) { return UndefinedIn(node) > 0; });
}

Plan FillUndefined(Plan plan, Filling filling, uint64_t seed) {
  Random random = Random(seed).Fork("undefined");
  for (Node& node : plan.nodes) {
    VisitHostBytes(node, [&](std::string& bytes, std::vector<UndefinedBytes>& undefined) {
      for (const UndefinedBytes& range : undefined)
        bytes.replace(range.at, range.found.size(), Contents(range, filling, random));
      undefined.clear();
    });
  }
  return plan;
}

}  // namespace cupel::plan
