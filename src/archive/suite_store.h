// The store of a suite run: one SQLite file that holds what is to be judged, what was found, and
// all that a resume must know. An item's outcome is one transaction: a kill at any instant loses at
// most what was not committed, and nothing is counted twice. The fields: docs/formats/suite.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "archive/archive.h"

namespace cupel::archive {

/// The file's name within the folder of a suite run.
inline constexpr const char* kSuiteFile = "suite.cupel";

struct NewSuite {
  std::string config = "{}";  // JSON object: what was asked for; a resume must ask for the same
  std::string cupel_version;
  uint64_t seed = 0;
};

struct SuiteInfo : NewSuite {
  RunStatus status = RunStatus::kRunning;
  /// JSON object: what the list was made of and what fell beside it (tasks without a kernel, …).
  std::string listing = "{}";
  int64_t created_ms = 0, updated_ms = 0;  // Unix time
};

/// A kernel for one direction of a task.
struct SuiteItem {
  std::string id;  // unique: "mnist_linear/forward/forward.cu"
  std::string task, direction, kernel;
  std::string task_path, kernel_path;  // where they were
  std::string task_sha256, source_sha256;
};

struct SuiteOutcome {
  std::string decision;  // "accepted", "rejected", "unsupported", "error"
  std::string verdict;   // cupel.verdict/1; empty where cupel could not judge
  std::string bench;     // cupel.bench/1; empty where nothing was timed
  std::string error, remedy;
  std::string worker, commit;  // who did it, and the commit of this cupel
  std::string cases;           // whose PyTorch computed truth: "worker" or "coordinator"
  double seconds = 0;
};

/// An item's times at one setting.
struct SuiteTimed {
  std::string setting;  // its id
  std::string bench;    // cupel.bench/1 of that setting alone
  double seconds = 0;
};

/// A verdict of an item that is not timed everywhere yet.
struct SuiteVerdict {
  std::string verdict;        // cupel.verdict/1
  std::string device, cases;  // the worker's device; as in SuiteOutcome
  double seconds = 0;
  std::vector<SuiteTimed> timed = {};  // where it is, in that order
};

/// What an item with a verdict took.
struct SuiteTime {
  std::string task, direction;
  double seconds = 0;
};

struct SuiteCounts {
  int64_t total = 0, done = 0;
  int64_t accepted = 0, rejected = 0, unsupported = 0, error = 0;
};

/// Thread-compatible. Errors as Archive's.
class SuiteStore {
 public:
  static Result<SuiteStore> Create(const std::filesystem::path& file, const NewSuite& suite);
  static Result<SuiteStore> Open(const std::filesystem::path& file, Access access);
  SuiteStore(SuiteStore&&) noexcept;
  SuiteStore& operator=(SuiteStore&&) noexcept;
  ~SuiteStore();

  Result<SuiteInfo> Info() const;
  Status SetStatus(RunStatus status);

  /// Ids of items whose outcome no longer stands, and why.
  struct Relisted {
    std::vector<std::string> changed_kernels, changed_tasks, gone;
  };
  /// Makes `items` the list, in this order. What was found of an item stays unless its kernel or
  /// its task has changed. One transaction.
  Result<Relisted> SetItems(std::span<const SuiteItem> items, std::string_view listing);

  Result<std::vector<SuiteItem>> Items() const;
  /// Those that have no outcome, or one that is cupel's own failure.
  Result<std::vector<SuiteItem>> Pending() const;
  Result<SuiteCounts> Count() const;
  Result<std::vector<SuiteTime>> Times() const;

  /// Kept until the item has an outcome, or its kernel or its task has changed. Replaces an earlier
  /// one and its times; those of `verdict` are not looked at.
  Status RecordVerdict(std::string_view item, const SuiteVerdict& verdict);
  /// With its times.
  Status DropVerdict(std::string_view item);
  /// Of an item whose verdict is kept; is kept as long.
  Status RecordTimed(std::string_view item, const SuiteTimed& timed);
  Result<std::optional<SuiteVerdict>> VerdictOf(std::string_view item) const;

  /// Replaces what was found of the item before.
  Status Record(std::string_view item, const SuiteOutcome& outcome);
  Result<std::optional<SuiteOutcome>> OutcomeOf(std::string_view item) const;

  /// What happened to the run ("resumed", "changed …"), the oldest first.
  Status AddEvent(std::string_view kind, std::string_view detail_json = "{}");
  Result<std::vector<Event>> Events() const;

 private:
  struct Impl;
  explicit SuiteStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::archive
