// The archive: one SQLite file per run. It contains everything needed to resume, replay and report
// a run that was stopped at any instant. Every write is a transaction. docs/formats/archive.md
// describes the schema and its fields. This interface passes JSON as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::archive {

/// The extension of run files.
inline constexpr std::string_view kExtension = ".cupel";
/// Longer sources, prompts, answers and JSON texts are rejected.
inline constexpr size_t kMaxBlobBytes = 16u << 20;

enum class RunStatus { kRunning, kStopped, kFinished, kFailed };
std::string_view Name(RunStatus status);

enum class CandidateStatus { kQueued, kEvaluating, kDone };
std::string_view Name(CandidateStatus status);

struct NewRun {
  std::string id;  // letters, digits, '-', '_', '.'; also the stem of the file name
  std::string task, direction, task_hash;
  std::string cupel_version;
  std::string command = "[]";  // argv as a JSON array
  std::string config = "{}";   // JSON object: everything that a resume needs
  uint64_t seed = 0;
};

struct RunInfo : NewRun {
  RunStatus status = RunStatus::kRunning;
  int64_t created_ms = 0, updated_ms = 0;  // Unix time
};

struct NewCandidate {
  std::string source;
  std::string proposer;         // "baseline", "tuner", "llm:…"
  std::string description;      // for display: "BLOCK 128 -> 256"
  std::string tunables = "{}";  // JSON object of the tunable constants' values
  int generation = 0;
  std::vector<int64_t> parents;  // ids; all must exist
  std::string meta = "{}";       // JSON object: how it was made (docs/formats/archive.md)
};

struct Candidate {
  int64_t id = 0;
  int generation = 0;
  std::vector<int64_t> parents;
  std::string source_hash;  // SHA-256; Archive::Source returns the text
  std::string proposer, description, tunables, meta;
  CandidateStatus status = CandidateStatus::kQueued;
  int64_t created_ms = 0;
  // From the latest verdict; empty if there is none yet.
  std::string decision;  // "accepted", "rejected", "unsupported", "error"
  std::optional<double> objective;
};

struct NewVerdict {
  std::string decision;
  std::string json;  // cupel.verdict/1
  /// The value that selection minimises, such as estimated microseconds. Finite; only for accepted
  /// candidates.
  std::optional<double> objective;
  std::string objective_kind;  // "estimated_us", "median_us", "energy_mj" or "mix"
  bool fresh_cases = false;    // judged again on cases that selection never saw
};

struct StoredVerdict : NewVerdict {
  int64_t id = 0, candidate = 0, created_ms = 0;
};

struct Sample {
  std::string setting;
  std::string clock;    // "gpu", "emu"
  std::string subject;  // "candidate", "eager", "compile" …
  std::vector<double> us;
};

/// The result of one stage for a candidate on its way from proposal to verdict.
struct Stage {
  int64_t candidate = 0;
  std::string name;  // "novelty", "build", "review", "judge", "measure" …
  bool passed = false;
  std::string detail = "{}";  // JSON object: why, scores, votes
  double seconds = 0;         // time that it took
};

/// A question that is about to be sent to a language model. src/llm defines the JSON.
struct NewExchange {
  std::string role;  // "proposer", "reviewer:memory", "translator" …
  std::string model;
  std::string hash;     // of the request; equal questions have equal hashes
  std::string request;  // JSON object
  int attempt = 1;
  int64_t worst_tokens = 0, worst_nano_usd = 0;  // what it may cost
};

struct ExchangeEnd {
  std::string answer = "{}";  // JSON object; for a failed attempt, the part that arrived
  std::string error;          // empty: the question was answered
  int64_t input_tokens = 0, output_tokens = 0, charged_tokens = 0, charged_nano_usd = 0;
  double seconds = 0;
};

struct Exchange : NewExchange {
  int64_t id = 0, created_ms = 0;
  std::optional<int64_t> candidate;  // made from the answer
  std::optional<ExchangeEnd> end;    // none: still waiting, or the run was interrupted
};

/// The total cost of the run's questions. Those without an end count with their largest cost.
struct Charged {
  int64_t tokens = 0, nano_usd = 0;
};

struct Cost {
  std::optional<int64_t> candidate;
  std::string kind;    // "llm", "build", "emulate", "gpu"
  std::string detail;  // the model, the device
  int64_t input_tokens = 0, output_tokens = 0;
  double seconds = 0, usd = 0;
};

struct Event {
  int64_t id = 0, created_ms = 0;
  std::string kind;           // "started", "resumed", "new_best", "stopped" …
  std::string detail = "{}";  // JSON object
};

struct Counts {
  int64_t queued = 0, evaluating = 0, done = 0;
  int64_t accepted = 0, rejected = 0, unsupported = 0, error = 0;  // latest verdicts
  int64_t dropped = 0;                                             // done without a verdict
  int64_t total() const { return queued + evaluating + done; }
};

enum class Access {
  kOwner,     // runs the search; only one process at a time may be the owner
  kReadOnly,  // reports; works while another process owns the run
};

/// An open run. Move-only. Thread-compatible: guard it, or open the file again to read.
/// Errors: kNotFound (no such file), kInvalidArgument (not an archive, ids that do not exist,
/// invalid JSON, too large), kIo (full disk, damaged, locked), kUnsupported (made by a newer
/// cupel).
class Archive {
 public:
  /// Creates a new file atomically: it appears complete or not at all. Fails if `file` exists.
  static Result<Archive> Create(const std::filesystem::path& file, const NewRun& run);
  static Result<Archive> Open(const std::filesystem::path& file, Access access = Access::kOwner);
  Archive(Archive&&) noexcept;
  Archive& operator=(Archive&&) noexcept;
  ~Archive();

  Result<RunInfo> Run() const;
  Status SetStatus(RunStatus status);
  /// One JSON value that the caller needs to resume; "null" before the first PutState.
  Result<std::string> State() const;
  Status PutState(std::string_view json);
  /// Also adds an event, in the same transaction.
  Status PutState(std::string_view json, std::string_view event_kind,
                  std::string_view event_detail_json);

  struct Added {
    int64_t id = 0;
    bool added = false;  // false: the run already has this source, and nothing was changed
  };
  Result<Added> AddCandidate(const NewCandidate& candidate);
  /// Marks a candidate as being built and judged. If the run is interrupted, RequeueInterrupted
  /// queues it again.
  Status MarkEvaluating(int64_t candidate);
  /// On resume: queues candidates again whose evaluation was interrupted. Returns how many.
  Result<int64_t> RequeueInterrupted();
  /// Marks the candidate done. A candidate may get several verdicts: the latest counts. If `stage`
  /// has a name, it is added in the same transaction.
  Result<int64_t> RecordVerdict(int64_t candidate, const NewVerdict& verdict,
                                const Stage& stage = {});

  /// Appends the result of a stage.
  Status AddStage(const Stage& stage);
  /// Also marks the candidate done without a verdict, because it failed at this stage.
  Status Drop(const Stage& stage);
  /// The stages of all candidates, in the order of their ids.
  Result<std::vector<Stage>> Stages() const;
  Result<std::vector<Stage>> StagesOf(int64_t candidate) const;

  Result<Candidate> Get(int64_t candidate) const;
  Result<std::string> Source(int64_t candidate) const;
  Result<std::optional<Candidate>> FindBySource(std::string_view source) const;
  /// The latest verdict; nullopt if there is none.
  Result<std::optional<StoredVerdict>> LatestVerdict(int64_t candidate) const;
  /// The accepted candidate with the smallest objective, the oldest among equals.
  Result<std::optional<Candidate>> Best() const;
  /// The best `count` accepted candidates, best first.
  Result<std::vector<Candidate>> BestOf(int count) const;
  /// The candidate and its ancestors along first parents, oldest first.
  Result<std::vector<Candidate>> Lineage(int64_t candidate) const;
  /// All candidates by id; with `status`, only those.
  Result<std::vector<Candidate>> List(std::optional<CandidateStatus> status = {}) const;
  Result<Counts> Count() const;

  Status AddSamples(int64_t verdict, const std::vector<Sample>& samples);
  Result<std::vector<Sample>> Samples(int64_t verdict) const;
  /// Records a question, which is kept even if it is never answered. Returns its id.
  Result<int64_t> BeginExchange(const NewExchange& exchange);
  Status EndExchange(int64_t exchange, const ExchangeEnd& end);
  /// Records that `candidate` was made from the answer to the question with this hash.
  Status AttributeExchange(std::string_view hash, int64_t candidate);
  /// The first answer to the question, as JSON; nullopt if there is none.
  Result<std::optional<std::string>> AnswerTo(std::string_view hash) const;
  Result<std::vector<Exchange>> Exchanges() const;
  Result<Charged> ExchangesCharged() const;
  Status AddCost(const Cost& cost);
  /// Sums over the run, by kind (candidate and detail are empty).
  Result<std::vector<Cost>> CostsByKind() const;
  Status AddEvent(std::string_view kind, std::string_view detail_json = "{}");
  Result<std::vector<Event>> Events() const;

  /// SQLite's integrity_check and foreign_key_check; an Error names the first problem.
  Status Verify() const;

 private:
  struct Impl;
  explicit Archive(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The run in one file of a folder. If the file cannot be read, only `file` and `problem` are set.
struct RunSummary {
  std::filesystem::path file;
  RunInfo run;
  Counts counts;
  std::optional<double> best_objective;
  std::string problem;
};

/// All runs in `folder`, newest first. A missing folder gives an empty list.
Result<std::vector<RunSummary>> ListRuns(const std::filesystem::path& folder);

}  // namespace cupel::archive
