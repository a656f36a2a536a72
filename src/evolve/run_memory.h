// Data about a run's candidates for prompts: sources, names, objectives, feedback and lessons.
// Caches what it reads from the archive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "evolve/form.h"
#include "evolve/novelty.h"
#include "evolve/prompt.h"

namespace cupel::evolve {

class RunMemory {
 public:
  RunMemory(const archive::Archive& archive, std::function<std::string(double)> objective_text,
            Form form)
      : archive_(archive), objective_text_(std::move(objective_text)), form_(form) {}

  Result<const std::string*> Source(int64_t id);
  Result<const Shingles*> ShinglesOf(int64_t id);
  /// Of a source that is no candidate yet.
  Shingles Of(const std::string& source) const;
  /// Includes the feedback page, if there is one, but no recommendations.
  Result<ParentKernel> Parent(const archive::Candidate& candidate);
  Result<KnownKernel> Known(const archive::Candidate& candidate);
  /// The latest `count` of `candidates` by models that the judge or the reviewers did not accept,
  /// latest last. Variants by the tuner teach nothing.
  Result<std::vector<FailedAttempt>> Failures(const std::vector<archive::Candidate>& candidates,
                                              int count);

 private:
  /// What reviewers said about a candidate that they stopped.
  Result<std::optional<std::string>> ObjectionsTo(int64_t id) const;

  const archive::Archive& archive_;
  std::function<std::string(double)> objective_text_;
  const Form form_;
  std::map<int64_t, std::string> sources_;
  std::map<int64_t, Shingles> shingles_;
};

/// The proposer's name for it, otherwise the archive's description.
std::string NameOf(const archive::Candidate& candidate);

}  // namespace cupel::evolve
