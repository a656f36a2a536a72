// The paper's soft verifiers (arXiv 2509.14279, stage 3): language models that review a kernel
// before it is judged, where that is expensive. One question asks for all kinds of mistakes, and
// the answer has, in a strict format, an opinion on each with its confidence and the faulty line.
// If opinions disagree, the models reconsider once. Votes are counted. Reviewers do not see
// comments and strings of the kernel, which could address them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
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

/// The input of a review.
struct Subject {
  std::string source;      // of the kernel; neutralised before the models see it
  std::string operation;   // the PyTorch code, arguments and shapes, as text
  std::string findings;    // of the emulator, as text; empty: not shown
  int64_t sample = 0;      // llm::Request::sample of the questions
  bool is_python = false;  // `source` is a Python program, which brings its kernels
};

struct Opinion {
  Aspect aspect = Aspect::kCompile;
  std::string model;
  bool usable = false;  // false: no answer in the format, so no vote
  bool fine = false;
  double confidence = 0;  // stated by the model, 0 to 1
  std::string line;       // the faulty line as quoted; empty if it is fine
  int line_number = 0;    // of the quoted line, from 1; 0: not in the source, or no quote
  std::string reason;     // of the verdict; if unusable: what was wrong
  std::string exchange;   // the hash of the last question
  /// The first answer, if the model reconsidered.
  std::optional<bool> first_fine;
  double first_confidence = 0;
  double usd = 0;  // of all its questions
  int64_t input_tokens = 0, output_tokens = 0;

  /// It objects, but the quoted line is not in the source.
  bool misquotes() const { return usable && !fine && line_number == 0; }
};

struct Review {
  std::vector<Opinion> opinions;
  double score = 0;    // 0: all say wrong with full confidence, 1: all say fine; 0.5: no votes
  bool passed = true;  // by the vote and the threshold
  double usd = 0, seconds = 0;
};
Json ToJson(const Opinion& opinion);
Json ToJson(const Review& review);

/// The instructions for each verifier, by aspect.
using Instructions = std::array<std::string, kAspects>;
/// The built-in instructions (src/review/instructions).
Instructions DefaultInstructions();

struct ReviewOptions {
  /// What to ask about, in the order of Aspect. kCompile is useless once nvcc has compiled a
  /// kernel.
  std::vector<Aspect> aspects = {std::begin(kAllAspects), std::end(kAllAspects)};
  /// nvcc has compiled the kernel: a certain vote for Aspect::kCompile beside each model's
  /// opinions, so that weights and threshold of three aspects hold.
  bool compiled = false;
  bool reflect = true;  // one more round of the same conversation if opinions disagree
  /// A score below the threshold does not pass. Each verifier looks for its own kind of mistake, so
  /// a single confident objection must be enough to stop a kernel. docs/review.md has the
  /// measurements.
  double threshold = 0.75;
  bool weighted = true;                  // weight votes by confidence and `weights`; else majority
  double weights[kAspects] = {1, 1, 1};  // by aspect
  Instructions instructions = DefaultInstructions();
};

/// Sets score and passed of `review` from its usable opinions. The score is the share of "fine" or,
/// if weighted, the mean weighted by aspect and confidence; a misquoted line halves the weight. A
/// score that equals the threshold passes.
void Count(Review& review, const ReviewOptions& options);

/// Whether a second look may change the vote: models disagree on an aspect, or an objection is
/// uncertain or quotes a line that is not in the source.
bool Disagree(const std::vector<Opinion>& opinions);

/// Asks each of `models` one question about all aspects, all concurrently, and once more if they
/// disagree. After an unusable answer, asks again and says what was wrong. A model that fails has
/// no vote. The opinions are ordered by model, then by aspect; the cost of a question is divided
/// among its opinions. The only Error is kCancelled.
Result<Review> AskReviewers(const Subject& subject, const std::vector<llm::Asker*>& models,
                            const ReviewOptions& options);

}  // namespace cupel::review
