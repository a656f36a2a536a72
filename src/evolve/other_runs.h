// What helped in other runs, perhaps for other tasks: ideas whose gain was judged and measured, as
// text for prompts. Used only if the user names the runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/json.h"

namespace cupel::evolve {

/// An idea with its evidence.
struct ProvenIdea {
  std::string task, direction, run;  // `run`: as the user named it
  int64_t candidate = 0;             // of that run
  double before = 0, after = 0;      // objectives of its parent and itself, in the same unit
  std::string idea;                  // its author's words, in a sentence or two

  double gain() const { return before / after; }
};

/// The ideas of a run by models that are at least 5 % faster than their parent, largest gain first,
/// at most `most`. `name`: ProvenIdea::run.
Result<std::vector<ProvenIdea>> ProvenIdeasOf(const archive::Archive& archive,
                                              const std::string& name, size_t most = 4);

/// "softmax forward, 1.52x (candidate 7 of cupel-runs/a): one warp for each row …"
std::string Text(const ProvenIdea& idea);

Json ToJson(const std::vector<ProvenIdea>& ideas);
Result<std::vector<ProvenIdea>> ProvenIdeasFromJson(const Json& json);

}  // namespace cupel::evolve
