// The archive: one SQLite file a run, holding everything that a run needs to be stopped at any
// instant and resumed, replayed and reported. Every write is a transaction. The schema and what its
// fields mean: docs/formats/archive.md. JSON crosses this interface as text.
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

/// File names of runs end so.
inline constexpr std::string_view kExtension = ".cupel";
/// Sources, prompts, answers and JSON texts longer than this are refused.
inline constexpr size_t kMaxBlobBytes = 16u << 20;

enum class RunStatus { kRunning, kStopped, kFinished, kFailed };
std::string_view Name(RunStatus status);

enum class CandidateStatus { kQueued, kEvaluating, kDone };
std::string_view Name(CandidateStatus status);

struct NewRun {
  std::string id;  // letters, digits, '-', '_', '.'; also the stem of the file's name
  std::string task, direction, task_hash;
  std::string cupel_version;
  std::string command = "[]";  // argv as a JSON array
  std::string config = "{}";   // JSON object: all that a resume must know
  uint64_t seed = 0;
};

struct RunInfo : NewRun {
  RunStatus status = RunStatus::kRunning;
  int64_t created_ms = 0, updated_ms = 0;  // Unix time
};

struct NewCandidate {
  std::string source;
  std::string proposer;         // "baseline", "tuner", "llm:…"
  std::string description;      // for people: "BLOCK 128 -> 256"
  std::string tunables = "{}";  // JSON object of the tunable constants' values
  int generation = 0;
  std::vector<int64_t> parents;  // ids; all must exist
  std::string meta = "{}";       // JSON object: how it came to be (docs/formats/archive.md)
};

struct Candidate {
  int64_t id = 0;
  int generation = 0;
  std::vector<int64_t> parents;
  std::string source_hash;  // SHA-256; the text: Archive::Source
  std::string proposer, description, tunables, meta;
  CandidateStatus status = CandidateStatus::kQueued;
  int64_t created_ms = 0;
  // From the latest verdict; empty while there is none.
  std::string decision;  // "accepted", "rejected", "unsupported", "error"
  std::optional<double> objective;
};

struct NewVerdict {
  std::string decision;
  std::string json;  // cupel.verdict/1
  /// What selection minimises; only for accepted candidates, finite. E.g. estimated microseconds.
  std::optional<double> objective;
  std::string objective_kind;  // "estimated_us" or "median_us"
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

/// What one step of the way from proposal to verdict made of a candidate, in the order of the way.
struct Stage {
  int64_t candidate = 0;
  std::string name;  // "novelty", "build", "review", "judge", "measure" …
  bool passed = false;
  std::string detail = "{}";  // JSON object: why, scores, votes
  double seconds = 0;         // that it took
};

/// A question to a language model that is about to be asked. JSON is that of src/llm.
struct NewExchange {
  std::string role;  // "proposer", "reviewer:memory", "translator" …
  std::string model;
  std::string hash;     // of the request: the same question has the same
  std::string request;  // JSON object
  int attempt = 1;
  int64_t worst_tokens = 0, worst_nano_usd = 0;  // what it may cost
};

struct ExchangeEnd {
  std::string answer = "{}";  // JSON object; of a failed attempt, what had arrived
  std::string error;          // empty: it was answered
  int64_t input_tokens = 0, output_tokens = 0, charged_tokens = 0, charged_nano_usd = 0;
  double seconds = 0;
};

struct Exchange : NewExchange {
  int64_t id = 0, created_ms = 0;
  std::optional<int64_t> candidate;  // that came of it
  std::optional<ExchangeEnd> end;    // none: it is under way, or was when the run was cut off
};

/// What the run's questions were charged; those without an end count at their worst.
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
  kOwner,     // drives the run: one process at a time, others are refused
  kReadOnly,  // reports; works while another process owns the run
};

/// An open run. Move-only. Thread-compatible: guard it, or open it once more to read.
/// Errors: kNotFound (no such file), kInvalidArgument (not an archive, ids that do not exist, JSON
/// that is none, too large), kIo (full disk, damaged, locked), kUnsupported (made by a newer
/// cupel).
class Archive {
 public:
  /// A new file; it appears under its name complete or not at all. Fails when `file` exists.
  static Result<Archive> Create(const std::filesystem::path& file, const NewRun& run);
  static Result<Archive> Open(const std::filesystem::path& file, Access access = Access::kOwner);
  Archive(Archive&&) noexcept;
  Archive& operator=(Archive&&) noexcept;
  ~Archive();

  Result<RunInfo> Run() const;
  Status SetStatus(RunStatus status);
  /// One JSON value of the driver's choice, for resume; "null" before the first Put.
  Result<std::string> State() const;
  Status PutState(std::string_view json);
  /// The same, with an event in one transaction.
  Status PutState(std::string_view json, std::string_view event_kind,
                  std::string_view event_detail_json);

  struct Added {
    int64_t id = 0;
    bool added = false;  // false: the run has this source already, nothing was changed
  };
  Result<Added> AddCandidate(const NewCandidate& candidate);
  /// It is being built and judged: a run that is cut off now queues it again.
  Status MarkEvaluating(int64_t candidate);
  /// On resume: candidates whose evaluation was cut off are queued again. Returns how many.
  Result<int64_t> RequeueInterrupted();
  /// Marks the candidate done. A candidate may get several verdicts: the latest counts. `stage`,
  /// where it has a name, is added in the same transaction.
  Result<int64_t> RecordVerdict(int64_t candidate, const NewVerdict& verdict,
                                const Stage& stage = {});

  /// Appends what a stage found.
  Status AddStage(const Stage& stage);
  /// The same, and the candidate is done without a verdict: it fell at this stage.
  Status Drop(const Stage& stage);
  /// Of all candidates, in their order.
  Result<std::vector<Stage>> Stages() const;
  Result<std::vector<Stage>> StagesOf(int64_t candidate) const;

  Result<Candidate> Get(int64_t candidate) const;
  Result<std::string> Source(int64_t candidate) const;
  Result<std::optional<Candidate>> FindBySource(std::string_view source) const;
  /// The latest verdict, nullopt before the first.
  Result<std::optional<StoredVerdict>> LatestVerdict(int64_t candidate) const;
  /// The accepted candidate with the smallest objective, the oldest among equals.
  Result<std::optional<Candidate>> Best() const;
  /// The best `count` accepted candidates, best first.
  Result<std::vector<Candidate>> BestOf(int count) const;
  /// The candidate and its ancestors along first parents, the oldest first.
  Result<std::vector<Candidate>> Lineage(int64_t candidate) const;
  /// All candidates by id; with `status`, only those.
  Result<std::vector<Candidate>> List(std::optional<CandidateStatus> status = {}) const;
  Result<Counts> Count() const;

  Status AddSamples(int64_t verdict, const std::vector<Sample>& samples);
  Result<std::vector<Sample>> Samples(int64_t verdict) const;
  /// Records are kept whatever becomes of the question. Returns its id.
  Result<int64_t> BeginExchange(const NewExchange& exchange);
  Status EndExchange(int64_t exchange, const ExchangeEnd& end);
  /// `candidate` came of the question with this hash.
  Status AttributeExchange(std::string_view hash, int64_t candidate);
  /// The first answer to the question, as JSON; nullopt when it has none.
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

/// What one file of a folder holds; `problem` is set instead of the rest when it cannot be read.
struct RunSummary {
  std::filesystem::path file;
  RunInfo run;
  Counts counts;
  std::optional<double> best_objective;
  std::string problem;
};

/// All runs in `folder`, the newest first. An absent folder holds none.
Result<std::vector<RunSummary>> ListRuns(const std::filesystem::path& folder);

}  // namespace cupel::archive
