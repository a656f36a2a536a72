// The verdict: the decision about a candidate, with reasons that a person and an LLM can act on.
// Its JSON form is "cupel.verdict/1" (docs/formats/verdict.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
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
/// 0, 1, 3, 2 in the order of the enumerators.
int ExitStatus(Decision decision);

/// What a reason is about: the first of the places where it was found.
struct ReasonPlace {
  std::string setting;                  // its id; empty: none
  std::optional<size_t> trial, output;  // of the setting
  std::string file;                     // base name of the source, if a line is known
  int line = 0;                         // 0: not known
};

struct Reason {
  std::string code;     // stable, snake_case
  std::string message;  // one or two sentences
  std::string where;    // `at` as text: "kernel.cu:31", "single-0 trial 2 output 0"; may be empty
  ReasonPlace at = {};
  std::string further = {};  // follows the message: "also in multi-1"; may be empty

  /// The message and what follows it.
  std::string Text() const { return further.empty() ? message : message + "; " + further; }
};

struct TrialReport {
  uint64_t seed = 0;
  bool ok = false;
  std::vector<Comparison> outputs;
  std::string kind;  // empty: an ordinary trial; otherwise a distribution's name or, for a failed
                     // trial, "shadow", "tiny", "integers" or "schedule"
  /// Blocks that the engine ran, and all blocks of all grids; they differ if a sample was taken.
  uint64_t emulated_blocks = 0, all_blocks = 0;
};

struct SettingReport {
  std::string id, kind, description;
  /// "passed", "failed", "not_run", "no_reference" (the task's own reference fails here),
  /// "cannot_judge" (a negative control passes), "not_declared" (the candidate does not claim it),
  /// "refused" (by the candidate's host code, at sizes that the task does not list)
  std::string status = "not_run";
  std::string reduced;  // the task's own sizes, if the setting was reduced for the emulator
  std::string derived;  // how its sizes were derived from the task's first setting; empty: listed
  std::string note;
  /// Why the setting could not be run on this candidate (the recorder refused it, the engine lacks
  /// an opcode). `unsupported`: the problem is a missing feature of cupel.
  std::vector<Reason> problems;
  bool unsupported = false;
  std::vector<TrialReport> trials;
  std::vector<engine::Finding> findings;
  std::vector<Control> controls;
  Established established;  // results beyond the tolerance
  OtherInputs other_inputs;
  std::vector<UsedCase> cases;  // all cases used, in order
  engine::Counters counters;    // of the first trial
  double host_us = 0;           // median host time of a recorded call
  double oracle_seconds = 0, record_seconds = 0, engine_seconds = 0, judge_seconds = 0;
};

struct Verdict {
  Decision decision = Decision::kRejected;  // until Decide sets it
  std::vector<Reason> reasons;              // empty only if accepted
  std::vector<std::string> notes;           // legal but worth knowing; limits
  std::vector<std::string> not_checked;     // "speed on a GPU": what the decision does not cover
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

/// Sets the status of each setting, the decision and the reasons from the setting reports. Reasons
/// that are already there (a candidate that does not compile) stay in front. If there are any, the
/// decision is kRejected, unless the caller has set kUnsupported or kError. Otherwise accepts only
/// if at least one setting passed and every other setting passed, has no reference, cannot be
/// judged, was refused at derived sizes, or is not declared. Equal reasons of several trials and
/// settings become one reason, with its first place and "also in …".
Verdict Decide(Verdict verdict);

/// "single-0 trial 7 (extremes) output 0", as used in reasons.
std::string PlaceText(const SettingReport& setting, size_t trial, size_t output);

/// All times are inside "timing", so two runs with one seed differ only there. Includes the digest
/// (record.h), so the result must not be changed.
Json ToJson(const Verdict& verdict);

}  // namespace cupel::judge
