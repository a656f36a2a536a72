// SPDX-License-Identifier: Apache-2.0
#include "evolve/tuner.h"

#include <algorithm>
#include <set>
#include <utility>

namespace cupel::evolve {
namespace {

constexpr int kAttemptsPerProposal = 64;  // random draws before giving up

int64_t ValueIn(const Assignment& assignment, const Tunable& tunable) {
  const auto it = assignment.find(tunable.name);
  return it == assignment.end() ? tunable.value : it->second;
}

void Set(Assignment& assignment, const Tunable& tunable, int64_t value) {
  if (value == tunable.value) {
    assignment.erase(tunable.name);
  } else {
    assignment[tunable.name] = value;
  }
}

template <typename T>
void Shuffle(std::vector<T>& items, Random& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

/// Every assignment that moves one tunable by one choice.
std::vector<Assignment> Neighbours(const std::vector<Tunable>& tunables, const Assignment& best) {
  std::vector<Assignment> all;
  for (const Tunable& tunable : tunables) {
    const auto& choices = tunable.choices;
    const auto here = std::find(choices.begin(), choices.end(), ValueIn(best, tunable));
    if (here == choices.end()) continue;
    for (const int step : {-1, +1}) {
      if ((step < 0 && here == choices.begin()) || (step > 0 && here + 1 == choices.end()))
        continue;
      Assignment neighbour = best;
      Set(neighbour, tunable, *(here + step));
      all.push_back(std::move(neighbour));
    }
  }
  return all;
}

}  // namespace

std::vector<Assignment> Propose(const std::vector<Tunable>& tunables, const Assignment& best,
                                int count, Random random,
                                const std::function<bool(const Assignment&)>& is_new) {
  std::vector<Assignment> proposals;
  std::set<Assignment> taken;
  const auto offer = [&](Assignment assignment) {
    if (static_cast<int>(proposals.size()) < count && !taken.contains(assignment) &&
        is_new(assignment)) {
      taken.insert(assignment);
      proposals.push_back(std::move(assignment));
    }
  };
  std::vector<Assignment> neighbours = Neighbours(tunables, best);
  Shuffle(neighbours, random);
  for (Assignment& neighbour : neighbours) offer(std::move(neighbour));
  const int attempts = tunables.empty() ? 0 : count * kAttemptsPerProposal;
  for (int i = 0; i < attempts && static_cast<int>(proposals.size()) < count; ++i) {
    Assignment point;
    for (const Tunable& tunable : tunables) {
      Set(point, tunable, tunable.choices[random.Below(tunable.choices.size())]);
    }
    offer(std::move(point));
  }
  return proposals;
}

}  // namespace cupel::evolve
