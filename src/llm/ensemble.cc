// SPDX-License-Identifier: Apache-2.0
#include "llm/ensemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/beta.h"
#include "base/random.h"

namespace cupel::llm {
namespace {

struct Shape {
  double a, b;
};

/// The prior counts as two observations. Its mean depends on the weight: 1/2 for a member of
/// average weight.
Shape ShapeOf(const Ensemble::Member& member, double mean_weight) {
  const double prior = member.weight / (member.weight + mean_weight);
  return {2 * prior + member.earned, 2 * (1 - prior) + member.missed};
}

double MeanWeight(const std::vector<Ensemble::Member>& members) {
  double sum = 0;
  for (const auto& member : members) sum += member.weight;
  return sum / static_cast<double>(members.size());
}

}  // namespace

Ensemble::Ensemble(std::vector<Member> members, EnsembleOptions options)
    : members_(std::move(members)), options_(options) {
  CHECK(!members_.empty());
  for (const Member& member : members_) CHECK(member.weight > 0);
}

size_t Ensemble::Choose() {
  // Each choice has its own stream, so the number of choices is the only state of the generator.
  Random random = Random(options_.seed).Fork(fmt::format("choice {}", choices_++));
  const double mean = MeanWeight(members_);
  size_t best = 0;
  if (random.Unit() < options_.floor) {
    double left = random.Unit() * mean * static_cast<double>(members_.size());
    while (best + 1 < members_.size() && left >= members_[best].weight) {
      left -= members_[best++].weight;
    }
  } else {
    double largest = -1;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Shape shape = ShapeOf(members_[i], mean);
      const double draw = DrawBeta(random, shape.a, shape.b);
      if (draw > largest) best = i;
      largest = std::max(largest, draw);
    }
  }
  ++members_[best].asked;
  return best;
}

void Ensemble::Reward(size_t member, double reward) {
  CHECK(member < members_.size());
  reward = std::isnan(reward) ? 0 : std::clamp(reward, 0.0, 1.0);
  for (Member& each : members_) {
    each.earned *= options_.memory;
    each.missed *= options_.memory;
  }
  Member& own = members_[member];
  own.earned += reward;
  own.missed += 1 - reward;
  own.total += reward;
  ++own.rewarded;
}

double Ensemble::Expected(size_t member) const {
  const Shape shape = ShapeOf(members_[member], MeanWeight(members_));
  return shape.a / (shape.a + shape.b);
}

Json Ensemble::State() const {
  Json members = Json::array();
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    members.push_back({{"name", member.name},
                       {"weight", member.weight},
                       {"earned", member.earned},
                       {"missed", member.missed},
                       {"asked", member.asked},
                       {"rewarded", member.rewarded},
                       {"total", member.total},
                       {"expected", Expected(i)}});
  }
  return {{"choices", choices_}, {"members", std::move(members)}};
}

Status Ensemble::Restore(const Json& state) {
  const std::string what = "the ensemble's state";
  TRY_ASSIGN(const int64_t choices, JsonInt(state, "choices", what));
  TRY_ASSIGN(const Json* saved, JsonArray(state, "members", what));
  std::vector<Member> members = members_;
  if (saved->size() != members.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} has {} models, but this run has {}", what, saved->size(), members.size()),
        "resume with the models that the run started with");
  }
  for (size_t i = 0; i < members.size(); ++i) {
    Member& member = members[i];
    TRY_ASSIGN(const std::string name, JsonString((*saved)[i], "name", what));
    if (name != member.name) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} names the model {} instead of {}", what, name, member.name),
                  "resume with the models that the run started with");
    }
    TRY_ASSIGN(member.earned, JsonNumber((*saved)[i], "earned", what));
    TRY_ASSIGN(member.missed, JsonNumber((*saved)[i], "missed", what));
    TRY_ASSIGN(member.asked, JsonInt((*saved)[i], "asked", what));
    TRY_ASSIGN(member.rewarded, JsonInt((*saved)[i], "rewarded", what));
    TRY_ASSIGN(member.total, JsonNumber((*saved)[i], "total", what));
    if (!(member.earned >= 0 && member.missed >= 0)) {
      return Fail(ErrorCode::kInvalidArgument, what + " has negative sums");
    }
  }
  members_ = std::move(members);
  choices_ = choices;
  return {};
}

}  // namespace cupel::llm
