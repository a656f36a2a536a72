// The verdict: the decision about a candidate with reasons that a person and an LLM can act on, and
// its JSON form "cupel.verdict/1" (docs/formats/verdict.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "judge/compare.h"
#include "judge/controls.h"
#include "judge/established.h"
#include "judge/other_inputs.h"
#include "judge/provenance.h"

namespace cupel::judge {

enum class Decision { kAccepted, kRejected, kUnsupported, kError };
const char* Name(Decision decision);
/// 0, 1, 3, 2 (design: exit statuses).
int ExitStatus(Decision decision);

struct Reason {
  std::string code;     // stable, snake_case
  std::string message;  // one or two sentences
  std::string where;    // "kernel.cu:31", "single-0 trial 2 output 0"; may be empty
};

struct TrialReport {
  uint64_t seed = 0;
  bool ok = false;
  std::vector<Comparison> outputs;
  std::string kind;  // empty: ordinary; a distribution's name; or, kept when failed, "shadow",
                     // "tiny", "integers", "schedule"
  /// Blocks that the engine ran of those in all grids; fewer where a sample was taken.
  uint64_t emulated_blocks = 0, all_blocks = 0;
};

struct SettingReport {
  std::string id, kind, description;
  /// "passed", "failed", "not_run", "no_reference" (the task's own reference fails here),
  /// "cannot_judge" (a negative control passes), "not_declared" (the candidate does not claim it),
  /// "refused" (by the candidate's host code, at sizes that the task does not list)
  std::string status = "not_run";
  std::string reduced;  // what it was, where the emulator is asked at smaller sizes
  std::string derived;  // how its sizes were made from the task's first setting; empty: listed
  std::string note;
  /// Why the setting could not be run on this candidate (a refusal of the recorder, an opcode that
  /// the engine lacks); `unsupported` says that it is cupel that lacks something.
  std::vector<Reason> problems;
  bool unsupported = false;
  std::vector<TrialReport> trials;
  std::vector<engine::Finding> findings;
  std::vector<Control> controls;
  Established established;  // beyond the tolerance
  OtherInputs other_inputs;
  std::vector<UsedCase> cases;  // all that were used, in order
  engine::Counters counters;    // of the first trial
  double host_us = 0;           // median recorded host time of a call
  double oracle_seconds = 0, record_seconds = 0, engine_seconds = 0, judge_seconds = 0;
};

struct Verdict {
  Decision decision = Decision::kRejected;  // until Decide says otherwise
  std::vector<Reason> reasons;              // empty only when accepted
  std::vector<std::string> notes;           // legal, worth knowing; limits
  std::vector<std::string> not_checked;     // "speed on a GPU": what the decision does not say
  std::string declared;  // "judged only for …: 1 of 11 settings"; empty: the candidate claims all
  std::string task, direction, kernel_path, device, seed_origin;  // "entropy" or "user"
  uint64_t seed = 0;
  int trials = 0;
  std::string source_hash, image_key, task_hash, toolkit, torch_version, cupel_version;
  std::vector<std::string> flags;
  std::vector<build::KernelResources> resources;
  std::vector<SettingReport> settings;
  Provenance provenance;
  double build_seconds = 0, total_seconds = 0;
};

/// Draws the conclusion from the setting reports: their status, the decision and the reasons.
/// Reasons that are there already (a candidate that does not compile) stay in front; with them the
/// decision is kRejected, or stays kUnsupported or kError where the caller has set one of these.
/// Accepts only when every setting passed, or has no reference, cannot be judged, was refused at
/// derived sizes or is not declared, and at least one passed. What recurs
/// across trials and settings becomes one reason with its first place and "also in …".
Verdict Decide(Verdict verdict);

/// "single-0 trial 7 (extremes) output 0", as in a reason.
std::string PlaceOf(const SettingReport& setting, size_t trial, size_t output);

/// All times are inside "timing", so that two runs with one seed differ nowhere else. Sealed with a
/// digest (record.h): nothing may be changed afterwards.
Json ToJson(const Verdict& verdict);

}  // namespace cupel::judge
