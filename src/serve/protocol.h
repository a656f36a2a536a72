// "cupel.worker/1": the messages between a worker pool and its workers, one line of JSON each, over
// the worker's standard input and output (docs/formats/worker.md). Both sides are cupel. Still the
// length of each line and every member are checked: a line may be torn, or not from cupel at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "serve/item.h"
#include "serve/task_bundle.h"
#include "serve/worker_pool.h"

namespace cupel::serve {

inline constexpr const char* kProtocol = "cupel.worker/1";
/// Bytes of a line. Enough for a task's files in base64 with a kernel, and for a verdict of
/// thousands of trials.
inline constexpr size_t kLongestLine = kMaxJsonBytes;
/// Bytes of a file in one Chunk.
inline constexpr size_t kChunkBytes = 1u << 20;

/// The identity of a worker. Values that must be equal on both sides are compared as text.
struct Hello {
  std::string protocol, version, commit;
  std::string program;  // SHA-256 of the worker's program
  std::string data;     // SHA-256 of its headers and of the oracle's code
  std::string host;
  int64_t pid = 0, cores = 0;
};

/// The worker is ready to judge.
struct Ready {
  std::string device;  // "emu (h100)"
  bool timed = false;  // it has a clock
  std::string torch;   // the version; empty: none
  std::string cases;   // "worker" or "coordinator"
  std::string gpu;     // its UUID; empty: none
};

/// Work for a worker: judge the item or, if it has a verdict, time it at one setting. `ticket` is
/// the coordinator's number of this attempt.
struct Assignment {
  int64_t ticket = 0;
  Item item;              // with the coordinator's paths, for messages and records
  std::string setting;    // the setting to time, one that passed in the item's verdict
  std::string source;     // of the kernel
  std::string task_path;  // as the coordinator loaded it
  std::string task_hash;  // Task::content_hash
  TaskBundle task;
};

/// A heartbeat with the current progress.
struct Alive {
  int64_t ticket = 0;  // 0: no work
  std::string stage;
  int64_t done = 0, total = 0;
};

/// The result of an assignment: exactly one of a verdict, a setting's times (bench), is_stale and
/// an error.
struct Done {
  int64_t ticket = 0;
  Json verdict, bench;    // null: none
  bool is_stale = false;  // the given verdict is not valid on this worker's machine
  double seconds = 0;
  std::optional<Error> error;
};

/// Opens a stream of cases of the item's task. It gets no answer; NextCase does.
struct OpenCases {
  int64_t stream = 0, ticket = 0;
  bool backward = false;
  std::string setting_id;
  Json init, inputs;
  std::string distribution;
  int64_t count = 0;
  bool fresh = false;
  std::optional<uint64_t> seed;
  std::optional<std::vector<uint64_t>> seeds;  // instead of count and seed
};
struct NextCase {
  int64_t stream = 0;
};
struct CloseCases {
  int64_t stream = 0;
};
/// The answer to NextCase: the hash of a file, or a failure, or an error. None of these: the end.
struct CaseAnswer {
  int64_t stream = 0;
  std::string sha256;  // of the file; empty: none
  int64_t bytes = 0;
  std::string content_hash;  // Case::content_hash
  std::optional<oracle::SettingFailure> failure;
  std::optional<Error> error;
  std::vector<std::string> warnings;  // about the task; only those not yet sent on this stream
};
/// Requests a part of a file that a CaseAnswer named.
struct Fetch {
  std::string sha256;
  int64_t offset = 0;
};
struct Chunk {
  std::string sha256;
  int64_t offset = 0;
  std::string data;
  std::optional<Error> error;
};

/// The worker cannot judge at all. It ends after this.
struct Failed {
  Error error;
};
/// The worker must end.
struct Bye {};

using FromWorker =
    std::variant<Hello, Ready, Alive, Done, OpenCases, NextCase, CloseCases, Fetch, Failed>;
using ToWorker = std::variant<Setup, Assignment, CaseAnswer, Chunk, Alive, Bye>;

/// The message as a line, without the line end.
std::string LineOf(const FromWorker& message);
std::string LineOf(const ToWorker& message);
/// Errors: the line is malformed. They do not quote the line.
Result<FromWorker> ReadFromWorker(std::string_view line);
Result<ToWorker> ReadToWorker(std::string_view line);

/// Where the hello in a line begins, since a login shell may have printed text before it. Nullopt
/// if the line contains no hello.
std::optional<size_t> FindHello(std::string_view line);

}  // namespace cupel::serve
