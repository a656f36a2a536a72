// SPDX-License-Identifier: Apache-2.0
#include "record/undefined.h"

#include <algorithm>

#include "plan/undefined.h"

namespace cupel::record {
namespace {

constexpr char kPattern = static_cast<char>(0xfe);

/// The bytes of both plans for which `is_undefined(of_one, of_other)`.
template <typename Predicate>
Undefined Find(const plan::Plan& one, const plan::Plan& other, Predicate is_undefined) {
  Undefined found;
  const size_t nodes = std::min(one.nodes.size(), other.nodes.size());
  for (uint32_t node = 0; node < nodes; ++node) {
    plan::VisitHostBytes(one.nodes[node], [&](const std::string& ours, const auto&) {
      plan::VisitHostBytes(other.nodes[node], [&](const std::string& theirs, const auto&) {
        if (ours.size() != theirs.size()) return;
        bool continues = false;
        for (uint32_t at = 0; at < ours.size(); ++at) {
          const bool is = is_undefined(ours[at], theirs[at]);
          if (is && continues) ++found.back().bytes;
          if (is && !continues) found.push_back({node, at, 1});
          continues = is;
        }
      });
    });
  }
  return found;
}

/// Sorts, and joins ranges that overlap or touch.
void Normalise(Undefined& ranges) {
  std::ranges::sort(ranges);
  Undefined joined;
  for (const UndefinedRange& range : ranges) {
    if (joined.empty() || joined.back().node != range.node ||
        joined.back().at + joined.back().bytes < range.at) {
      joined.push_back(range);
      continue;
    }
    const uint32_t end = std::max(joined.back().at + joined.back().bytes, range.at + range.bytes);
    joined.back().bytes = end - joined.back().at;
  }
  ranges = std::move(joined);
}

/// The ranges of `node`.
auto RangesOf(const Undefined& undefined, uint32_t node) {
  return std::ranges::equal_range(undefined, node, {}, &UndefinedRange::node);
}

}  // namespace

Undefined FindUndefined(const plan::Plan& pattern, const plan::Plan& zeros) {
  return Find(pattern, zeros, [](char one, char other) { return one == kPattern && other == 0; });
}

Undefined FindPadding(const plan::Plan& usual, const plan::Plan& filled) {
  return Find(usual, filled, [](char one, char other) { return one != 0 && other == 0; });
}

void MarkUndefined(const Undefined& undefined, plan::Plan& plan) {
  for (uint32_t node = 0; node < plan.nodes.size(); ++node) {
    const auto added = RangesOf(undefined, node);
    if (added.empty()) continue;
    plan::VisitHostBytes(plan.nodes[node], [&](std::string& bytes, auto& marked) {
      Undefined all(added.begin(), added.end());
      for (const plan::UndefinedBytes& range : marked) {
        all.push_back({node, range.at, static_cast<uint32_t>(range.found.size())});
        bytes.replace(range.at, range.found.size(), range.found);
      }
      Normalise(all);
      marked = TakeUndefined(all, node, bytes);
    });
  }
}

Undefined UndefinedInCall(const plan::Plan& plan) {
  Undefined undefined;
  const auto prepared = static_cast<uint32_t>(plan.prepared);
  for (uint32_t node = prepared; node < plan.nodes.size(); ++node) {
    plan::VisitHostBytes(plan.nodes[node], [&](const std::string&, const auto& marked) {
      for (const plan::UndefinedBytes& range : marked)
        undefined.push_back({node - prepared, range.at, static_cast<uint32_t>(range.found.size())});
    });
  }
  return undefined;
}

void Join(const Undefined& more, Undefined& into) {
  into.insert(into.end(), more.begin(), more.end());
  Normalise(into);
}

std::vector<plan::UndefinedBytes> TakeUndefined(const Undefined& undefined, uint32_t node,
                                                std::string& bytes) {
  std::vector<plan::UndefinedBytes> taken;
  for (const UndefinedRange& range : RangesOf(undefined, node)) {
    if (range.at >= bytes.size()) break;
    const auto found = bytes.substr(range.at, range.bytes);
    bytes.replace(range.at, found.size(), found.size(), '\0');
    taken.push_back({range.at, found});
  }
  return taken;
}

}  // namespace cupel::record
