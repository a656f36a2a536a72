// The paper's soft verifiers (arXiv 2509.14279, stage 3): language models that read a kernel before
// anything expensive is spent on it. Each looks for one kind of mistake, answers in a strict format
// with its confidence and the line it objects to, and may think once more. Their votes are counted;
// what a kernel's comments and strings say to a judge is out of their sight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "llm/asker.h"

namespace cupel::review {

enum class Aspect { kCompile, kMemory, kNumerics };
const char* Name(Aspect aspect);  // "compile", "memory", "numerics"

/// What reviewers are shown.
struct Subject {
  std::string source;     // of the kernel; neutralised before it is shown
  std::string operation;  // the PyTorch code, arguments and shapes, as text
  std::string findings;   // the emulator's, as text; empty: withheld
};

struct Opinion {
  Aspect aspect = Aspect::kCompile;
  std::string model;
  bool usable = false;  // false: no answer, or none in the format; it has no vote
  bool fine = false;
  double confidence = 0;  // in its own answer, 0 to 1
  std::string line;       // quoted from the source, where it objects; checked to be in it
  std::string reason;
  std::string exchange;  // the hash of the last question
};

struct Review {
  std::vector<Opinion> opinions;
  double score = 0;    // 0: all say wrong with full confidence, 1: all say fine; 0.5: nobody votes
  bool passed = true;  // by the vote and the threshold
  double usd = 0, seconds = 0;
};
Json ToJson(const Review& review);

struct ReviewOptions {
  bool reflect = true;     // one more round: "consider again"
  double threshold = 0.5;  // a score below it does not pass
  bool weighted = true;    // votes by confidence and by what calibration found; else majority
  double weights[3] = {1, 1, 1};  // by aspect
};

/// Asks all aspects at once; each of `models` gives its own opinion on each. An Error only where
/// asking had to end (cancelled); a model that fails has no vote.
Result<Review> AskReviewers(const Subject& subject, const std::vector<llm::Asker*>& models,
                            const ReviewOptions& options);

}  // namespace cupel::review
