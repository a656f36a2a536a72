// SPDX-License-Identifier: Apache-2.0
#include "evolve/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "evolve/candidates.h"
#include "evolve/feedback.h"

namespace cupel::evolve {
namespace {

// Shares of the operators if all are allowed.
constexpr double kEditShare = 0.3, kCrossoverShare = 0.2;
constexpr size_t kMostExampleBytes = 16u << 10;

class Planner {
 public:
  Planner(const EvolutionParts& parts, const EvolutionOptions& options,
          const std::vector<archive::Candidate>& before, SearchState& state, RunMemory& memory)
      : parts_(parts), options_(options), state_(state), memory_(memory) {
    std::map<int64_t, std::pair<int, int>> offspring;  // of each parent: tried, better
    for (const archive::Candidate& one : before) {
      by_id_.emplace(one.id, &one);
      lineage_[one.id] = one.parents;
      // Variants by the tuner say little about where models should go on.
      if (one.parents.empty() || !one.proposer.starts_with("llm:")) continue;
      const auto parent = by_id_.find(one.parents.front());
      if (parent == by_id_.end() || !parent->second->objective) continue;
      auto& [tried, better] = offspring[parent->first];
      ++tried;
      better += one.objective && *one.objective < *parent->second->objective ? 1 : 0;
    }
    for (const auto& [id, counts] : offspring) {
      weights_[id] = ParentWeight(counts.first, counts.second);
    }
  }

  Result<Plan> Make(int generation, const Random& random,
                    const std::vector<archive::Candidate>& before) {
    Plan plan;
    plan.island = IslandOf(generation, state_.islands.size());
    const auto& members = state_.islands[plan.island].members;
    TRY_ASSIGN(failures_, memory_.Failures(before, options_.failures));
    const int chosen = options_.sequential ? 1 : options_.proposals;
    for (int i = 0; i < chosen; ++i) {
      TRY_ASSIGN(Slot slot, Choose(i, plan.island, RandomOf(i, random)));
      plan.slots.push_back(std::move(slot));
    }
    // Before any prompt is made, so that all of them show the same, also after a kill.
    if (options_.feedback) TRY(ProfileParents(plan.slots));
    for (Slot& slot : plan.slots) {
      TRY(Fill(slot, members, RandomOf(slot.number, random)));
    }
    // The others continue the first one's conversation.
    for (int i = chosen; i < options_.proposals; ++i) {
      Slot slot = plan.slots.front();
      slot.number = i;
      plan.slots.push_back(std::move(slot));
    }
    return plan;
  }

 private:
  static Random RandomOf(int slot, const Random& random) {
    return random.Fork(fmt::format("slot {}", slot));
  }

  /// A slot with its model, parents and operator.
  Result<Slot> Choose(int number, size_t home, const Random& random) {
    Slot slot;
    slot.number = number;
    slot.model = state_.ensemble.Choose();
    const auto& members = state_.islands[home].members;
    const auto parent =
        SelectParent(members, options_.temperature, weights_, random.Fork("parent"));
    if (!parent) return Fail(ErrorCode::kInternal, "the island has no kernel");
    slot.parents = {*parent};
    Random way = random.Fork("way");
    const double unit = way.Unit();
    if (options_.crossover && unit < kCrossoverShare) {
      const auto mate = SelectMate(state_.islands, home, *parent, lineage_, options_.temperature,
                                   random.Fork("mate"));
      if (mate) {
        slot.parents.push_back(*mate);
        slot.op = Operator::kCrossover;
      }
    } else if (options_.edits && unit < kCrossoverShare + kEditShare) {
      slot.op = Operator::kEdit;
    }
    return slot;
  }

  Status ProfileParents(const std::vector<Slot>& slots) {
    for (const Slot& slot : slots) {
      for (const int64_t id : slot.parents) {
        TRY(parts_.evaluator.Profile(id));
        if (!options_.summary) continue;
        TRY_ASSIGN(const archive::Candidate* subject, SubjectOf(*by_id_.at(id)));
        TRY(parts_.evaluator.Profile(subject->id));
      }
    }
    return {};
  }

  Status Fill(Slot& slot, const std::vector<Scored>& members, const Random& random) {
    PromptContext& context = slot.context;
    context.form = parts_.evaluator.form();
    context.operation = options_.operation;
    context.floor = options_.floor;
    context.compared = options_.compared;
    for (const int64_t id : slot.parents) {
      TRY_ASSIGN(ParentKernel parent, ParentOf(id));
      context.parents.push_back(std::move(parent));
    }
    TRY(AddExamples(slot, members));
    HintFit fit = options_.fit;
    TRY_ASSIGN(const auto bound, TextOfJudge(parts_.archive, slot.parents.front(), "bound"));
    fit.bound = bound.value_or("");
    if (slot.op == Operator::kEdit) fit = ForEdits(fit, context.parents.front().source);
    for (const Hint* hint : state_.hints.Sample(options_.hints, fit, random.Fork("hints"))) {
      slot.hints.push_back(hint->id);
      context.hints.push_back(hint->text);
    }
    for (const ProvenIdea& one : options_.proven) context.proven.push_back(Text(one));
    context.failures = failures_;
    return {};
  }

  /// What the advice on a kernel is about: of a variant by the tuner, the kernel that it varies, so
  /// that all variants of a kernel cost one question.
  Result<const archive::Candidate*> SubjectOf(const archive::Candidate& candidate) {
    constexpr const char* kWhat = "the archive's candidates";
    TRY_ASSIGN(const Json meta, ParseJson(candidate.meta, kWhat));
    if (!meta.contains("tuned_from")) return &candidate;
    TRY_ASSIGN(const int64_t root, JsonInt(meta, "tuned_from", kWhat));
    const auto found = by_id_.find(root);
    if (found == by_id_.end()) return &candidate;
    TRY_ASSIGN(const auto feedback, TextOfJudge(parts_.archive, root, "feedback"));
    return feedback ? found->second : &candidate;
  }

  Result<ParentKernel> ParentOf(int64_t id) {
    const auto found = parents_.find(id);
    if (found != parents_.end()) return found->second;
    TRY_ASSIGN(ParentKernel parent, memory_.Parent(*by_id_.at(id)));
    if (!options_.feedback) parent.feedback.clear();
    if (options_.summary && !parent.feedback.empty()) {
      TRY_ASSIGN(const archive::Candidate* subject, SubjectOf(*by_id_.at(id)));
      TRY_ASSIGN(const ParentKernel shown, memory_.Parent(*subject));
      auto advice =
          Recommend(*parts_.reviewers.front(), options_.operation, shown.source, shown.feedback);
      if (advice) parent.recommendations = *std::move(advice);
      parent.advised_before_tuning = subject->id != id;
      // Without advice the prompt has only the page. If no model can be asked, a later step fails.
    }
    parents_.emplace(id, parent);
    return parent;
  }

  Status AddExamples(Slot& slot, const std::vector<Scored>& members) {
    std::vector<Scored> others;
    for (const Scored& member : members) {
      const bool is_parent =
          std::find(slot.parents.begin(), slot.parents.end(), member.id) != slot.parents.end();
      if (!is_parent) others.push_back(member);
    }
    Status status;
    const auto similarity = [&](int64_t a, int64_t b) {
      const auto one = memory_.ShinglesOf(a), other = memory_.ShinglesOf(b);
      if (!one || !other) {
        status = tl::unexpected(one ? other.error() : one.error());
        return 0.0;
      }
      return Similarity(**one, **other);
    };
    const auto chosen =
        SelectExamples(others, slot.parents, static_cast<size_t>(options_.examples), similarity);
    TRY(status);
    for (const int64_t id : chosen) {
      TRY_ASSIGN(KnownKernel example, memory_.Known(*by_id_.at(id)));
      // Whole kernels cost thousands of tokens each. So only the best has its source, if it is
      // short and the prompt does not have two kernels already.
      const bool shows = id == chosen.back() && slot.parents.size() == 1 &&
                         example.source.size() <= kMostExampleBytes;
      if (!shows && !example.idea.empty()) example.source.clear();
      slot.context.examples.push_back(std::move(example));
    }
    return {};
  }

  const EvolutionParts& parts_;
  const EvolutionOptions& options_;
  SearchState& state_;
  RunMemory& memory_;
  std::map<int64_t, const archive::Candidate*> by_id_;
  Lineage lineage_;
  ParentWeights weights_;
  std::vector<FailedAttempt> failures_;
  std::map<int64_t, ParentKernel> parents_;
};

}  // namespace

Result<Plan> MakePlan(const EvolutionParts& parts, const EvolutionOptions& options, int generation,
                      const std::vector<archive::Candidate>& before, SearchState& state,
                      RunMemory& memory, const Random& random) {
  return Planner(parts, options, before, state, memory).Make(generation, random, before);
}

}  // namespace cupel::evolve
