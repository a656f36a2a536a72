// SPDX-License-Identifier: Apache-2.0
#include "evolve/islands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace cupel::evolve {
namespace {

/// Of two kernels of which a prompt shows one: the other one would only cost tokens.
constexpr double kNearlyEqual = 0.9;
constexpr int kUnrelated = std::numeric_limits<int>::max();

bool Better(const Scored& a, const Scored& b) {
  return std::tie(a.value, a.id) < std::tie(b.value, b.id);
}

bool Holds(const std::vector<Scored>& members, int64_t id) {
  return std::any_of(members.begin(), members.end(), [&](const Scored& m) { return m.id == id; });
}

/// The number of generations up to each ancestor of a candidate, including itself (0).
std::map<int64_t, int> Ancestors(int64_t candidate, const Lineage& lineage) {
  std::map<int64_t, int> steps = {{candidate, 0}};
  std::vector<int64_t> row = {candidate};
  for (int step = 1; !row.empty(); ++step) {
    std::vector<int64_t> next;
    for (const int64_t child : row) {
      const auto parents = lineage.find(child);
      if (parents == lineage.end()) continue;
      for (const int64_t parent : parents->second) {
        if (steps.try_emplace(parent, step).second) next.push_back(parent);
      }
    }
    row = std::move(next);
  }
  return steps;
}

/// The length of the shortest path between two candidates through a common ancestor.
int Distance(const std::map<int64_t, int>& mine, const std::map<int64_t, int>& other) {
  int distance = kUnrelated;
  for (const auto& [ancestor, steps] : other) {
    const auto common = mine.find(ancestor);
    if (common != mine.end()) distance = std::min(distance, steps + common->second);
  }
  return distance;
}

}  // namespace

std::vector<Island> MakeIslands(int count) {
  CHECK(count > 0);
  std::vector<Island> islands(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) islands[static_cast<size_t>(i)].id = i;
  return islands;
}

size_t IslandOf(int generation, size_t islands) {
  CHECK(generation >= 0 && islands > 0);
  return static_cast<size_t>(generation) % islands;
}

void AddMember(Island& island, Scored candidate) {
  CHECK(std::isfinite(candidate.value));
  std::vector<Scored>& members = island.members;
  std::erase_if(members, [&](const Scored& m) { return m.id == candidate.id; });
  members.insert(std::upper_bound(members.begin(), members.end(), candidate, Better), candidate);
}

double ParentWeight(int tried, int better) { return 2.0 * (1 + better) / (2 + tried); }

std::optional<int64_t> SelectParent(const std::vector<Scored>& members, double temperature,
                                    const ParentWeights& weights, Random random) {
  if (members.empty()) return std::nullopt;
  const double ratio = temperature > 0 ? std::exp(-1 / temperature) : 0;
  std::vector<double> up_to;  // sums of weights
  double sum = 0, weight = 1;
  for (size_t i = 0; i < members.size(); ++i, weight *= ratio) {
    const auto own = weights.find(members[i].id);
    up_to.push_back(sum += weight * (own == weights.end() ? 1 : own->second));
  }
  const double at = random.Unit() * sum;
  const auto chosen = std::upper_bound(up_to.begin(), up_to.end() - 1, at);
  return members[static_cast<size_t>(chosen - up_to.begin())].id;
}

std::optional<int64_t> SelectMate(const std::vector<Island>& islands, size_t home, int64_t parent,
                                  const Lineage& lineage, double temperature, Random random) {
  CHECK(home < islands.size());
  const std::vector<Scored>& own = islands[home].members;
  std::vector<Scored> mates = AllMembers(islands);
  std::erase_if(mates, [&](const Scored& m) { return m.id == parent || Holds(own, m.id); });
  if (mates.empty()) mates = own;
  std::erase_if(mates, [&](const Scored& m) { return m.id == parent; });

  const std::map<int64_t, int> ancestors = Ancestors(parent, lineage);
  std::map<int64_t, int> distance;
  for (const Scored& mate : mates) {
    distance[mate.id] = Distance(ancestors, Ancestors(mate.id, lineage));
  }
  std::stable_sort(mates.begin(), mates.end(), [&](const Scored& a, const Scored& b) {
    return distance[a.id] > distance[b.id];
  });
  mates.resize((mates.size() + 1) / 2);
  std::sort(mates.begin(), mates.end(), Better);
  return SelectParent(mates, temperature, {}, random);
}

std::vector<int64_t> SelectExamples(const std::vector<Scored>& members,
                                    const std::vector<int64_t>& parents, size_t count,
                                    const SimilarityOf& similarity) {
  struct Open {
    size_t rank = 0;
    double likeness = 0;  // largest similarity to a chosen example
  };
  std::vector<Open> open;
  open.reserve(members.size());
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const bool is_near = std::ranges::any_of(parents, [&](int64_t parent) {
      return similarity(parent, members[rank].id) > kNearlyEqual;
    });
    if (!is_near) open.push_back({rank});
  }
  std::vector<size_t> chosen;  // ranks
  const auto cost = [&](const Open& one) {
    return static_cast<double>(one.rank) / static_cast<double>(members.size()) + one.likeness;
  };
  while (chosen.size() < count && !open.empty()) {
    const auto next = std::min_element(
        open.begin(), open.end(), [&](const Open& a, const Open& b) { return cost(a) < cost(b); });
    const size_t rank = next->rank;
    chosen.push_back(rank);
    open.erase(next);
    for (Open& one : open) {
      one.likeness = std::max(one.likeness, similarity(members[rank].id, members[one.rank].id));
    }
    std::erase_if(open, [](const Open& one) { return one.likeness > kNearlyEqual; });
  }
  std::sort(chosen.rbegin(), chosen.rend());
  std::vector<int64_t> examples;
  examples.reserve(chosen.size());
  for (const size_t rank : chosen) examples.push_back(members[rank].id);
  return examples;
}

std::vector<Move> Migrate(std::vector<Island>& islands, int generation, int every) {
  if (every <= 0 || (generation + 1) % every != 0) return {};
  std::vector<std::optional<Scored>> best;
  best.reserve(islands.size());
  for (const Island& island : islands) {
    best.push_back(island.members.empty() ? std::nullopt : std::optional(island.members.front()));
  }
  std::vector<Move> moves;
  for (size_t from = 0; from < islands.size(); ++from) {
    Island& to = islands[(from + 1) % islands.size()];
    if (!best[from] || Holds(to.members, best[from]->id)) continue;
    AddMember(to, *best[from]);
    moves.push_back({best[from]->id, islands[from].id, to.id});
  }
  return moves;
}

std::vector<Scored> AllMembers(const std::vector<Island>& islands) {
  std::vector<Scored> members;
  std::set<int64_t> seen;
  for (const Island& island : islands) {
    for (const Scored& member : island.members) {
      if (seen.insert(member.id).second) members.push_back(member);
    }
  }
  std::sort(members.begin(), members.end(), Better);
  return members;
}

Json StateOf(const std::vector<Island>& islands) {
  Json list = Json::array();
  for (const Island& island : islands) {
    Json members = Json::array();
    for (const Scored& member : island.members) {
      members.push_back({{"id", member.id}, {"value", member.value}});
    }
    list.push_back({{"id", island.id}, {"members", std::move(members)}});
  }
  return {{"islands", std::move(list)}};
}

Result<std::vector<Island>> IslandsFromState(const Json& state) {
  const std::string what = "the islands' state";
  TRY_ASSIGN(const Json* list, JsonArray(state, "islands", what));
  std::vector<Island> islands;
  for (const Json& entry : *list) {
    Island island;
    TRY_ASSIGN(const int64_t id, JsonInt(entry, "id", what));
    if (id != static_cast<int64_t>(islands.size())) {
      return Fail(ErrorCode::kInvalidArgument, what + ": islands must be numbered from 0");
    }
    island.id = static_cast<int>(id);
    TRY_ASSIGN(const Json* members, JsonArray(entry, "members", what));
    for (const Json& saved : *members) {
      Scored member;
      TRY_ASSIGN(member.id, JsonInt(saved, "id", what));
      TRY_ASSIGN(member.value, JsonNumber(saved, "value", what));
      if (!std::isfinite(member.value) || Holds(island.members, member.id)) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: candidate {} of island {} occurs twice or has no finite "
                                "value",
                                what, member.id, id));
      }
      AddMember(island, member);
    }
    islands.push_back(std::move(island));
  }
  if (islands.empty()) return Fail(ErrorCode::kInvalidArgument, what + " has none");
  return islands;
}

}  // namespace cupel::evolve
