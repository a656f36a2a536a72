// From PyTorch to a first kernel that is right: ask, build, judge at the timed settings, then at
// all; what is wrong goes back into the same conversation, up to a bound. All state is in the
// archive: a run that was cut off is repeated from its beginning with the answers and verdicts that
// are known, so that nothing is asked or judged twice. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "assay/assay.h"
#include "judge/verdict.h"
#include "llm/asker.h"

namespace cupel::evolve {

struct TranslateOptions {
  int attempts = 10;       // answers, the unusable ones counted
  std::string operation;   // Text(Operation)
  bool user_seed = false;  // cases from `seed` rather than from the pool
  uint64_t seed = 0;
  std::filesystem::path source_folder;  // where candidates are written for the compiler
};

/// One answer and what became of it.
struct Attempt {
  int number = 0;
  std::string model;
  std::string name;                  // as the model calls it
  std::optional<int64_t> candidate;  // none: the answer was unusable
  bool accepted = false;
  std::string problem;  // one line: why not
};

struct Translation {
  std::vector<Attempt> attempts;
  std::optional<int64_t> kernel;          // the candidate that is right
  std::optional<judge::Verdict> verdict;  // the last one, where it was given in this process
};

struct Translator {
  // All borrowed.
  archive::Archive& archive;
  assay::Assay& assay;
  /// Asked in turns: the next one begins a conversation of its own when one has failed
  /// kAttemptsAConversation times.
  std::vector<llm::Asker*> models;
  /// Task, direction, kinds and trials of the final word.
  assay::Question question;
  TranslateOptions options;
  std::function<void(const std::string& stage)> progress;

  /// Errors: kCancelled and those of asking leave the archive ready for another Run().
  Result<Translation> Run();
};

}  // namespace cupel::evolve
