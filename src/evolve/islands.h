// Islands: populations of accepted kernels that evolve apart and exchange their best from time to
// time (Tanese, "Distributed genetic algorithms", 1989), and what selection picks from them. Pure
// functions of candidates' ids, objective values and a seeded generator.
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

/// Parents of each candidate that has any.
using Lineage = std::map<int64_t, std::vector<int64_t>>;
/// From 0 to 1, of two candidates' texts (evolve/novelty.h).
using SimilarityOf = std::function<double(int64_t, int64_t)>;

/// `count` empty islands with ids from 0.
std::vector<Island> MakeIslands(int count);

/// The island that works on a generation: in turn.
size_t IslandOf(int generation, size_t islands);

/// A candidate that is a member already gets the new value. Values are finite.
void Settle(Island& island, Scored candidate);

/// One of `members` (best first), by rank: a rank is exp(1 / temperature) times as likely as the
/// next one. Temperature 0 always takes the best; a large one takes all alike. nullopt of none.
std::optional<int64_t> SelectParent(const std::vector<Scored>& members, double temperature,
                                    Random random);

/// A second parent for `parent`, which works on islands[home]: from the members of other islands
/// that are not at home or, where there are none, from home. Of these, the half whose lineage is
/// farthest from the parent's, then by rank. Never `parent` itself; nullopt where nobody else is.
std::optional<int64_t> SelectMate(const std::vector<Island>& islands, size_t home, int64_t parent,
                                  const Lineage& lineage, double temperature, Random random);

/// Up to `count` of `members` (best first) to show a model, slowest first. The best is always one;
/// the others weigh rank against likeness to those chosen before (maximal marginal relevance:
/// Carbonell and Goldstein 1998).
std::vector<int64_t> SelectExamples(const std::vector<Scored>& members, size_t count,
                                    const SimilarityOf& similarity);

struct Move {
  int64_t candidate = 0;
  int from = 0, to = 0;  // ids of islands
};
/// After each `every` generations (0: never) the best of each island settles on the next one too,
/// in a ring. `generation` counts from 0 and has just ended. Those that went where they were not.
std::vector<Move> Migrate(std::vector<Island>& islands, int generation, int every);

/// All candidates on any island, once, best first.
std::vector<Scored> Everyone(const std::vector<Island>& islands);

Json StateOf(const std::vector<Island>& islands);
/// Error kInvalidArgument: not what StateOf() writes.
Result<std::vector<Island>> IslandsFromState(const Json& state);

}  // namespace cupel::evolve
