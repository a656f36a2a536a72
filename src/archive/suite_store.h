// The store of a suite run: one SQLite file with the items to judge, their outcomes, and everything
// that a resume needs. An item's outcome is one transaction. A kill at any instant loses at most
// what was not committed, and nothing is counted twice. docs/formats/suite.md describes the fields.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "archive/archive.h"

namespace cupel::archive {

/// The file's name in the folder of a suite run.
inline constexpr const char* kSuiteFile = "suite.cupel";

struct NewSuite {
  std::string config = "{}";  // JSON object: the run's options; a resume must have the same
  std::string cupel_version;
  uint64_t seed = 0;
};

struct SuiteInfo : NewSuite {
  RunStatus status = RunStatus::kRunning;
  /// JSON object: notes on how the list was made and what was left out (tasks without a kernel, …).
  std::string listing = "{}";
  int64_t created_ms = 0, updated_ms = 0;  // Unix time
};

/// A kernel for one direction of a task.
struct SuiteItem {
  std::string id;  // unique: "mnist_linear/forward/forward.cu"
  std::string task, direction, kernel;
  std::string task_path, kernel_path;  // their paths when the list was made
  std::string task_sha256, source_sha256;
};

struct SuiteOutcome {
  std::string decision;  // "accepted", "rejected", "unsupported", "error"
  std::string verdict;   // cupel.verdict/1; empty if cupel could not judge
  std::string bench;     // cupel.bench/1; empty if nothing was timed
  std::string error, remedy;
  std::string worker, commit;  // the worker's name, and the commit of this cupel
  std::string cases;           // whose PyTorch computed the cases: "worker" or "coordinator"
  double seconds = 0;
};

/// An item's times at one setting.
struct SuiteTimed {
  std::string setting;  // its id
  std::string bench;    // cupel.bench/1 of only that setting
  double seconds = 0;
};

/// The verdict of an item that still has settings to time.
struct SuiteVerdict {
  std::string verdict;        // cupel.verdict/1
  std::string device, cases;  // the worker's device; as in SuiteOutcome
  double seconds = 0;
  std::vector<SuiteTimed> timed = {};  // the settings timed so far, in that order
};

/// The time that an item with a verdict took.
struct SuiteTime {
  std::string task, direction;
  double seconds = 0;
};

struct SuiteCounts {
  int64_t total = 0, done = 0;
  int64_t accepted = 0, rejected = 0, unsupported = 0, error = 0;
};

/// Thread-compatible. Errors: as for Archive.
class SuiteStore {
 public:
  static Result<SuiteStore> Create(const std::filesystem::path& file, const NewSuite& suite);
  static Result<SuiteStore> Open(const std::filesystem::path& file, Access access);
  SuiteStore(SuiteStore&&) noexcept;
  SuiteStore& operator=(SuiteStore&&) noexcept;
  ~SuiteStore();

  Result<SuiteInfo> Info() const;
  Status SetStatus(RunStatus status);

  /// Ids of items whose outcome was deleted, by reason.
  struct Relisted {
    std::vector<std::string> changed_kernels, changed_tasks, removed;
  };
  /// Replaces the list by `items`, in this order. An item keeps its outcome unless its kernel or
  /// its task has changed. One transaction.
  Result<Relisted> SetItems(std::span<const SuiteItem> items, std::string_view listing);

  Result<std::vector<SuiteItem>> Items() const;
  /// Items without an outcome, or with the decision "error".
  Result<std::vector<SuiteItem>> Pending() const;
  Result<SuiteCounts> Count() const;
  Result<std::vector<SuiteTime>> Times() const;

  /// Stores a verdict until the item has an outcome, or its kernel or task changes. Replaces an
  /// earlier verdict and its times. Ignores `verdict.timed`.
  Status RecordVerdict(std::string_view item, const SuiteVerdict& verdict);
  /// Deletes the verdict with its times.
  Status DropVerdict(std::string_view item);
  /// Adds times to an item with a stored verdict. They are kept as long as the verdict.
  Status RecordTimed(std::string_view item, const SuiteTimed& timed);
  Result<std::optional<SuiteVerdict>> VerdictOf(std::string_view item) const;

  /// Stores the item's outcome and replaces an earlier one.
  Status Record(std::string_view item, const SuiteOutcome& outcome);
  Result<std::optional<SuiteOutcome>> OutcomeOf(std::string_view item) const;

  /// Events of the run ("resumed", "changed_kernel" …), oldest first.
  Status AddEvent(std::string_view kind, std::string_view detail_json = "{}");
  Result<std::vector<Event>> Events() const;

 private:
  struct Impl;
  explicit SuiteStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cupel::archive
