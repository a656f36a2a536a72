// Islands: separate populations of accepted kernels that exchange their best from time to time
// (Tanese, "Distributed genetic algorithms", 1989), and the selection of parents and examples from
// them. Pure functions of candidate ids, objective values and a seeded generator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "base/result.h"

namespace cupel::evolve {

/// An accepted candidate and the value of its objective; smaller is better.
struct Scored {
  int64_t id = 0;
  double value = 0;
  bool operator==(const Scored&) const = default;
};

struct Island {
  int id = 0;
  std::vector<Scored> members;  // best first; of equals, the lower id first
  bool operator==(const Island&) const = default;
};

/// The parents of each candidate that has parents.
using Lineage = std::map<int64_t, std::vector<int64_t>>;
/// The similarity of two candidates' texts, from 0 to 1 (evolve/novelty.h).
using SimilarityOf = std::function<double(int64_t, int64_t)>;

/// `count` empty islands with ids from 0.
std::vector<Island> MakeIslands(int count);

/// The island that a generation works on. Islands take turns.
size_t IslandOf(int generation, size_t islands);

/// Adds a candidate, or updates its value if it is a member. Values are finite.
void AddMember(Island& island, Scored candidate);

/// How likely a member is as a parent compared with others of its rank; 1 if it is not listed.
using ParentWeights = std::map<int64_t, double>;
/// Weights by what offspring gained: of a parent with `tried` offspring of which `better` are
/// better than itself, 2 (1 + better) / (2 + tried). A parent without offspring has 1.
double ParentWeight(int tried, int better);

/// Picks one of `members` (best first) by rank and weight: each rank is exp(1 / temperature) times
/// as likely as the next. Temperature 0 always picks the best; a high temperature picks almost by
/// the weights alone. nullopt if there are no members.
std::optional<int64_t> SelectParent(const std::vector<Scored>& members, double temperature,
                                    const ParentWeights& weights, Random random);

/// Picks a second parent for `parent`, a member of islands[home]. Candidates are members of other
/// islands that are not on the home island; if there are none, members of the home island. Picks by
/// rank from the half whose lineage is farthest from the parent's. Never picks `parent` itself;
/// nullopt if there is no other candidate.
std::optional<int64_t> SelectMate(const std::vector<Island>& islands, size_t home, int64_t parent,
                                  const Lineage& lineage, double temperature, Random random);

/// Picks up to `count` of `members` (best first) to show a model; returns them slowest first. The
/// best that is left is always included. The others balance rank against similarity to earlier
/// choices (maximal marginal relevance: Carbonell and Goldstein 1998). Members that are nearly
/// equal to an earlier choice or to one of `parents`, such as variants of the tuner, are left out.
std::vector<int64_t> SelectExamples(const std::vector<Scored>& members,
                                    const std::vector<int64_t>& parents, size_t count,
                                    const SimilarityOf& similarity);

struct Move {
  int64_t candidate = 0;
  int from = 0, to = 0;  // ids of islands
};
/// After every `every` generations (0: never), copies the best of each island to the next island,
/// in a ring. `generation`, from 0, has just ended. Returns the moves; a best that is already on
/// the next island is not one.
std::vector<Move> Migrate(std::vector<Island>& islands, int generation, int every);

/// The members of all islands without duplicates, best first.
std::vector<Scored> AllMembers(const std::vector<Island>& islands);

Json StateOf(const std::vector<Island>& islands);
/// Error kInvalidArgument: not the output of StateOf().
Result<std::vector<Island>> IslandsFromState(const Json& state);

}  // namespace cupel::evolve
