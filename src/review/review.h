// The paper's soft verifiers (arXiv 2509.14279, stage 3): language models that read a kernel before
// anything expensive is spent on it. Each looks for one kind of mistake, answers in a strict format
// with its confidence and the line it objects to, and may think once more. Their votes are counted;
// what a kernel's comments and strings say to a judge is out of their sight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "llm/asker.h"

namespace cupel::review {

enum class Aspect { kCompile, kMemory, kNumerics };
inline constexpr size_t kAspects = 3;
inline constexpr Aspect kAllAspects[kAspects] = {Aspect::kCompile, Aspect::kMemory,
                                                 Aspect::kNumerics};
const char* Name(Aspect aspect);  // "compile", "memory", "numerics"

/// What reviewers are shown.
struct Subject {
  std::string source;     // of the kernel; neutralised before it is shown
  std::string operation;  // the PyTorch code, arguments and shapes, as text
  std::string findings;   // the emulator's, as text; empty: withheld
  int64_t sample = 0;     // llm::Request::sample of the questions
};

struct Opinion {
  Aspect aspect = Aspect::kCompile;
  std::string model;
  bool usable = false;  // false: no answer, or none in the format; it has no vote
  bool fine = false;
  double confidence = 0;  // in its own answer, 0 to 1
  std::string line;       // quoted from the source, where it objects; checked to be in it
  int line_number = 0;    // of the quoted line in the source, from 1; 0: it is not in it, or none
  std::string reason;     // of an unusable one, what was wrong with it
  std::string exchange;   // the hash of the last question
  /// Before it considered again, where it did.
  std::optional<bool> first_fine;
  double first_confidence = 0;
  double usd = 0;  // of all its questions
  int64_t input_tokens = 0, output_tokens = 0;

  /// It objects, and quotes a line that nobody wrote.
  bool misquotes() const { return usable && !fine && line_number == 0; }
};

struct Review {
  std::vector<Opinion> opinions;
  double score = 0;    // 0: all say wrong with full confidence, 1: all say fine; 0.5: nobody votes
  bool passed = true;  // by the vote and the threshold
  double usd = 0, seconds = 0;
};
Json ToJson(const Opinion& opinion);
Json ToJson(const Review& review);

/// What each verifier is told to look for, by aspect.
using Instructions = std::array<std::string, kAspects>;
/// Those that cupel was built with (src/review/instructions).
Instructions DefaultInstructions();

struct ReviewOptions {
  bool reflect = true;  // one more round: "consider again"
  /// A score below it does not pass. Each verifier looks for faults of its own, so that one of the
  /// three who is sure has to be enough, and is: docs/review.md has what was measured.
  double threshold = 0.75;
  bool weighted = true;  // votes by confidence and by what calibration found; else majority
  double weights[kAspects] = {1, 1, 1};  // by aspect
  Instructions instructions = DefaultInstructions();
};

/// Counts: a majority of fine among the usable, or their mean weighted by aspect and confidence,
/// where a misquoted line halves the weight. A score that equals the threshold passes.
void Count(Review& review, const ReviewOptions& options);

/// Asks all aspects at once; each of `models` gives its own opinion on each. An answer that cannot
/// be used is asked for once more, with what was wrong with it. An Error only where asking had to
/// end (cancelled); a model that fails has no vote.
Result<Review> AskReviewers(const Subject& subject, const std::vector<llm::Asker*>& models,
                            const ReviewOptions& options);

/// One of these opinions. Thread-safe.
Result<Opinion> AskReviewer(const Subject& subject, Aspect aspect, llm::Asker& model,
                            const std::string& instructions, const ReviewOptions& options);

}  // namespace cupel::review
