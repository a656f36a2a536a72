// SPDX-License-Identifier: Apache-2.0
#include "assay/configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "assay/judging_state.h"
#include "assay/own_part.h"
#include "assay/setting_judge.h"

namespace cupel::assay {
namespace {

constexpr int kMostConfigurations = 32;

class Trials {
 public:
  Trials(const Candidate& program, const Question& question, const Parts& parts, uint64_t seed,
         records::Verdict& verdict)
      : program_(program), question_(question), parts_(parts), seed_(seed), verdict_(verdict) {
    question_.trials = 1;
    question_.shadows = question_.integers = false;
    question_.distributions.clear();
  }

  /// False if a configuration is wrong.
  Result<bool> TryAll(const SearchedSetting& at) {
    std::vector<record::Search> searches = at.searches;
    if (AreKnown(searches)) return true;
    if (!at.is_first) {  // a process that has seen other settings counts its searches differently
      TRY_ASSIGN(SettingResult base, Judge(at, std::nullopt));
      searches = std::move(base.searches);
    }
    for (size_t s = 0; s < searches.size(); ++s) {
      const record::Search& search = searches[s];
      for (size_t i = 0; i < search.configurations.size(); ++i) {
        const std::string name = NameOf(search, i);
        if (!known_.insert(name).second || static_cast<int>(i) == search.chosen) continue;
        if (tried_ == kMostConfigurations) {
          ++untried_;
          continue;
        }
        ++tried_;
        parts_.Show({"trying " + name, tried_, std::nullopt, "configurations"});
        TRY_ASSIGN(const bool right, Try(at, {s, i}, name));
        if (!right) return false;
      }
    }
    return true;
  }

  void AddNotes() {
    const std::string others = untried_ > 0 ? fmt::format(" (of {})", tried_ + untried_) : "";
    if (tried_ > 0) {
      verdict_.notes.push_back(fmt::format(
          "of {}{} other configurations of its autotuners, {} are right in a trial{}", tried_,
          others, right_, unfit_ > 0 ? fmt::format(", and {} do not fit", unfit_) : ""));
    }
    const int left = untried_ + unjudged_;
    if (left > 0) {
      verdict_.notes.push_back(fmt::format("not checked: {} configuration{} of its autotuners",
                                           left, left == 1 ? "" : "s"));
    }
  }

 private:
  static std::string NameOf(const record::Search& search, size_t i) {
    return search.kernel + ": " + search.configurations[i];
  }

  bool AreKnown(const std::vector<record::Search>& searches) const {
    return std::all_of(searches.begin(), searches.end(), [&](const record::Search& search) {
      for (size_t i = 0; i < search.configurations.size(); ++i) {
        if (!known_.contains(NameOf(search, i))) return false;
      }
      return true;
    });
  }

  /// False if it is wrong.
  Result<bool> Try(const SearchedSetting& at, trace::WantedConfiguration wanted,
                   const std::string& name) {
    TRY_ASSIGN(SettingResult result, Judge(at, wanted));
    const auto& problems = result.report.problems;
    if (!problems.empty() && problems.front().code == "no_configuration") {
      ++unfit_;
      return true;
    }
    const bool is_chosen =
        wanted.search < result.searches.size() &&
        result.searches[wanted.search].chosen == static_cast<int>(wanted.configuration);
    records::Verdict alone;
    alone.settings.push_back(std::move(result.report));
    JudgeOperators(alone, question_, operators_, own_work_.kernels);
    alone = judge::Decide(std::move(alone));
    if (operators_.empty()) JudgeCopies(alone, own_work_);
    if (alone.decision != records::Decision::kRejected) {
      ++(alone.decision == records::Decision::kAccepted && is_chosen ? right_ : unjudged_);
      return true;
    }
    for (records::Reason& reason : alone.reasons) {
      reason.message =
          fmt::format("with another configuration of its autotuner ({}): {}", name, reason.message);
      AddReason(verdict_, records::Decision::kRejected, std::move(reason));
    }
    return false;
  }

  /// One trial in a new process. Leaves what the plan is made of in operators_ and own_work_.
  Result<SettingResult> Judge(const SearchedSetting& at,
                              std::optional<trace::WantedConfiguration> wanted) {
    Candidate variant = program_;
    std::get<PythonProgram>(variant.built).wanted = wanted;
    question_.given = {{at.setting->id, {at.first}}};
    TRY_ASSIGN(const auto state, JudgingState::Open(variant, question_, parts_, seed_));
    SettingContext context = state->At(*at.setting);
    bool may_scramble = false;
    context.may_scramble = &may_scramble;
    context.tries_controls = false;
    TRY_ASSIGN(SettingResult result, JudgeSetting(context));
    operators_ = std::move(state->operators);
    own_work_ = state->own_work;
    return result;
  }

  const Candidate& program_;
  Question question_;
  const Parts& parts_;
  const uint64_t seed_;
  records::Verdict& verdict_;
  std::set<std::string> known_;
  std::set<std::string> operators_;
  plan::OwnWork own_work_;
  int tried_ = 0, right_ = 0, unfit_ = 0, unjudged_ = 0, untried_ = 0;
};

}  // namespace

Status TryConfigurations(const Candidate& program, const Question& question, const Parts& parts,
                         const std::vector<SearchedSetting>& settings, uint64_t seed,
                         records::Verdict& verdict) {
  Trials trials(program, question, parts, seed, verdict);
  for (const SearchedSetting& at : settings) {
    TRY_ASSIGN(const bool right, trials.TryAll(at));
    if (!right) return {};
  }
  trials.AddNotes();
  return {};
}

}  // namespace cupel::assay
