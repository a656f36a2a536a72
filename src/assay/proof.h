// Proves that a kernel computes the task's function of real numbers at one size, by evaluating both
// in finite fields at random points (docs/proof.md): two functions that differ have different
// values there, except with a small probability (Schwartz and Zippel).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/assay.h"
#include "base/result.h"
#include "engine/run.h"
#include "oracle/oracle.h"
#include "task/case.h"
#include "task/task.h"

namespace cupel::assay {

enum class ProofOutcome { kProved, kNotProved, kDiffers };
const char* Name(ProofOutcome outcome);  // "proved", "not proved", "differs"

/// One output. An element is in exactly one of the four counts.
struct OutputProof {
  std::string name;
  bool is_integers = false;  // then only decisions make it
  int64_t count = 0;
  int64_t proved = 0;           // equal modulo every p, or modulo every q
  int64_t differing = 0;        // differs, and nothing explains it
  int64_t unfollowed = 0;       // rounding to integers, bits of floats, decisions within rounding
  int64_t unexplained = 0;      // differs, but a law or a number of the reference may be missing
  int64_t first_element = -1;   // that differs
  std::vector<int64_t> first;   // its index
  double value = 0, truth = 0;  // of that element, on the case's real inputs
  double shadow = 0;            // in exact arithmetic
  std::vector<std::string> reasons;  // why elements are not proved, the most frequent first
};

struct Proof {
  ProofOutcome outcome = ProofOutcome::kNotProved;
  std::string setting, sizes;
  task::Distribution inputs = task::Distribution::kUsual;
  std::vector<OutputProof> outputs;
  /// Why nothing is proved, if that holds for the whole call: an operator that is not covered, an
  /// instruction that the emulator lacks, a wrong result. Empty otherwise.
  std::string reason;
  /// The message of the first output that is not within its tolerance. Empty: all are.
  std::string beyond_tolerance;
  bool inapplicable = false;  // there are no such inputs
  bool broken = false;        // the kernel did not run to its end, or the emulator found an error
  bool has_roots = false;     // the signs of square roots were not proved
  /// No atomics, no waits for other blocks and no race: every order gives the same bits.
  bool any_order = false;
  /// Places of barriers without which no race appears ("kernel.cu:41"), each by itself.
  std::vector<std::string> removable_barriers;
  /// The region: comparisons of floats that found different orders, and those that found one only
  /// ("setp.lt.f32 at kernel.cu:12: always less").
  int varying_decisions = 0;
  std::vector<std::string> fixed_decisions;
  int fields = 0;
  double seconds = 0;
  double shadow_seconds = 0, field_seconds = 0;  // of the run with real numbers, and of all others
};

/// The elements of one output of a run in field `index`, and those of the reference.
struct ElementPair {
  const std::vector<uint64_t>* kernel = nullptr;  // engine::PackElement
  const std::vector<uint32_t>* p = nullptr;       // of the reference
  const std::vector<uint32_t>* q = nullptr;
};

/// Compares an output. `real`: of a run with real numbers, for its flags and causes.
/// `functions`: of the reference, known only by their arguments. `infinite`: elements that are the
/// same infinite number in both, which has no element; empty: none.
OutputProof CompareElements(const engine::OutputTensor& real,
                            const std::array<ElementPair, oracle::kFields>& fields,
                            const std::vector<std::string>& functions = {},
                            const std::vector<bool>& infinite = {});

/// `question.seed` draws the case and the fields. Other inputs than the usual ones take other
/// decisions. `tries_barriers`: also looks for barriers that order nothing, with a run for each.
/// Errors: those of the parts.
Result<Proof> Prove(const Parts& parts, const Candidate& candidate, const Question& question,
                    const task::Setting& setting, task::Distribution inputs, bool tries_barriers);

}  // namespace cupel::assay
