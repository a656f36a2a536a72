// The verdict: the decision about a candidate, with reasons that a person and an LLM can act on.
// Its JSON form is "cupel.verdict/1" (docs/formats/verdict.md); records/json.h writes and reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "build/image.h"
#include "build/sources.h"
#include "records/comparison.h"
#include "records/control.h"
#include "records/counters.h"
#include "records/established.h"
#include "records/finding.h"
#include "records/inputs.h"
#include "records/provenance.h"
#include "records/reason.h"
#include "task/task.h"

namespace cupel::records {

inline constexpr const char* kVerdictSchema = "cupel.verdict/1";

enum class Decision { kAccepted, kRejected, kUnsupported, kError };
/// "accepted" …
std::string_view Name(Decision decision);

struct TrialReport {
  uint64_t seed = 0;
  bool ok = false;
  std::vector<Comparison> outputs;
  std::string kind = kUsual;  // or a distribution's name or, for a failed trial, "shadow", "tiny",
                              // "integers", "schedule" or "state"
  /// Blocks that the engine ran, and all blocks of all grids; they differ if a sample was taken.
  uint64_t emulated_blocks = 0, all_blocks = 0;

  static constexpr const char* kUsual = "usual";
  bool is_usual() const { return kind == kUsual; }
};

enum class SettingStatus {
  kPassed,
  kFailed,
  kNotRun,
  kNoReference,  // the task's own reference fails here
  kCannotJudge,  // a negative control passes
  kNotDeclared,  // the candidate does not claim it
  kRefused,      // by the candidate's host code, at sizes that the task does not list
};

/// "passed", "no_reference" …
std::string_view Name(SettingStatus status);

/// Where the time to judge a setting went.
struct SettingSeconds {
  double host_us = 0;  // median host time of a recorded call
  double oracle = 0, record = 0, engine = 0, judge = 0;
};

/// The largest errors over trials and outputs.
struct LargestError {
  double rms = 0, rms_over_limit = 0, max = 0, max_over_limit = 0;
};

struct SettingReport {
  std::string id, description;
  task::SettingKind kind = task::SettingKind::kSingle;
  SettingStatus status = SettingStatus::kNotRun;
  std::string reduced;  // the task's own sizes, if the setting was reduced for the emulator
  std::string derived;  // how its sizes were derived from the task's first setting; empty: listed
  std::string note;
  /// Why the setting could not be run on this candidate (the recorder refused it, the engine lacks
  /// an opcode). `unsupported`: the problem is a missing feature of cupel; not in the record.
  std::vector<Reason> problems;
  bool unsupported = false;
  std::vector<TrialReport> trials;
  std::vector<Finding> findings;
  std::vector<Control> controls;
  Established established;  // results beyond the tolerance
  OtherInputs other_inputs;
  std::vector<UsedCase> cases;  // all cases used, in order
  Counters counters;            // of the first trial
  SettingSeconds seconds;

  bool passed() const { return status == SettingStatus::kPassed; }
  LargestError LargestErrors() const;
};

/// A limit (inputs.h) and the settings at which it was observed.
struct VerdictLimit {
  std::string kind, message, detail;
  std::vector<std::string> settings;
};

/// The codes of limits that are not sizes from which a kernel fails: it was judged at smaller sizes
/// than the task's own, is wrong on another stream than the default one, or computes another
/// function of real numbers, within rounding.
inline constexpr std::string_view kOwnSizes = "own_sizes";
inline constexpr std::string_view kCurrentStream = "current_stream";
inline constexpr std::string_view kOtherFunction = "other_function";

/// The kernel fails from some size on, or otherwise beyond the settings.
struct SizeLimit {
  std::string code;  // like Reason::code, or one of those above
  std::string
      message;  // "cannot be launched from rows=65536 on: grid.y is 65536, of at most 65535"
};

/// What the kernel does at sizes that no setting has.
struct Exploration {
  std::string note;                 // why sizes were not explored, or not all; else empty
  int recorded = 0;                 // sizes at which its host code was recorded
  int kinds = 0;                    // of work: kernels, blocks, flags
  int unjudged = 0;                 // kinds that no judged call has
  std::vector<std::string> judged;  // sizes at which it is also right
  std::vector<SizeLimit> limits;
};

/// Whether it computes the task's function of real numbers, at one setting (assay/proof.h).
struct ProofResult {
  std::string outcome;  // "proved", "not proved" or "differs"; empty: not tried
  std::string setting, message;
};

enum class SeedOrigin { kUser, kEntropy };

struct Verdict {
  Decision decision = Decision::kRejected;  // until judge::Decide sets it
  std::vector<Reason> reasons;              // empty only if accepted
  std::vector<std::string> notes;           // legal but worth knowing; limits
  std::vector<std::string> not_checked;     // "speed on a GPU": what the decision does not cover
  std::string declared;  // "judged only for …: 1 of 11 settings"; empty: the candidate claims all
  std::string task, kernel_path, device;
  task::Direction direction = task::Direction::kForward;
  SeedOrigin seed_origin = SeedOrigin::kEntropy;
  uint64_t seed = 0;
  int trials = 0;
  std::string source_hash, image_key, task_hash, toolkit, torch_version, cupel_version;
  std::vector<std::string> flags;
  std::vector<build::ListedFile> files;  // of a candidate of several files; else empty
  std::vector<build::KernelResources> resources;
  std::vector<SettingReport> settings;
  Exploration exploration;
  ProofResult proof;
  Provenance provenance;
  /// Of a GPU's verdict: the emulator's about the same candidate, which the decision includes. At
  /// most one, without others in it.
  std::vector<Verdict> other_engines;
  double build_seconds = 0, total_seconds = 0;
  std::string digest;  // of the record that this was read from; else empty

  bool accepted() const { return decision == Decision::kAccepted; }
  /// This verdict, and those of other engines.
  std::vector<const Verdict*> OfAllEngines() const;
  /// What the kernel cannot do and need not do: each limit once, with its settings. Includes what
  /// other engines found.
  std::vector<VerdictLimit> Limits() const;
};

}  // namespace cupel::records
