// "cupel.worker/1": what a crew and its workers say to each other, a line of JSON each, over the
// worker's standard input and output (docs/formats/worker.md). Both ends are cupel; still every
// line is bounded and every member checked, since a line may be torn or not from cupel at all.
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
#include "serve/crew.h"
#include "serve/item.h"
#include "serve/parcel.h"

namespace cupel::serve {

inline constexpr const char* kProtocol = "cupel.worker/1";
/// Of a line. A task's files in base64 and a kernel fit, and a verdict of thousands of trials.
inline constexpr size_t kLongestLine = kMaxJsonBytes;
/// Of a blob at a time.
inline constexpr size_t kChunkBytes = 1u << 20;

/// Who a worker is. What must be equal on both sides is compared as text.
struct Hello {
  std::string protocol, version, commit;
  std::string program;  // SHA-256 of the worker's program
  std::string data;     // of its headers and of the code that computes truth
  std::string host;
  int64_t pid = 0, cores = 0;
};

/// The worker can judge now.
struct Ready {
  std::string device;  // "emu (h100)"
  bool timed = false;  // it has a clock
  std::string torch;   // the version; empty: none
  std::string cases;   // "worker" or "coordinator"
  std::string gpu;     // its UUID; empty: none
};

/// What to do: judge the item or, if it has a verdict, time it at one setting. `ticket` is the
/// coordinator's number of this attempt.
struct Assignment {
  int64_t ticket = 0;
  Item item;              // with the coordinator's paths, for messages and records
  std::string setting;    // to be timed, of those that the item's verdict says passed
  std::string source;     // of the kernel
  std::string task_path;  // as the coordinator loaded it
  std::string task_hash;  // Task::content_hash
  Parcel task;
};

/// A sign of life, and what is being done.
struct Alive {
  int64_t ticket = 0;  // 0: nothing
  std::string stage;
  int64_t done = 0, total = 0;
};

/// One of four members: a verdict; a setting's times; or that the given verdict does not stand on
/// this worker's machine; or an error.
struct Done {
  int64_t ticket = 0;
  Json verdict, bench;  // null where there is none
  bool is_stale = false;
  double seconds = 0;
  std::optional<Error> error;
};

/// Opens a stream of cases of the item's task; answers come for NextCase alone.
struct OpenCases {
  int64_t stream = 0, ticket = 0;
  bool backward = false;
  std::string setting_id;
  Json init, inputs;
  std::string distribution;
  int64_t count = 0;
  bool fresh = false;
  std::optional<uint64_t> seed;
  std::optional<std::vector<uint64_t>> seeds;  // in place of count and seed
};
struct NextCase {
  int64_t stream = 0;
};
struct CloseCases {
  int64_t stream = 0;
};
/// The answer to NextCase: a file by its hash; or why there is none; or nothing: the end.
struct CaseAnswer {
  int64_t stream = 0;
  std::string sha256;  // of the file; empty: none
  int64_t bytes = 0;
  std::string content_hash;  // Case::content_hash
  std::optional<oracle::SettingFailure> failure;
  std::optional<Error> error;
  std::vector<std::string> warnings;  // about the task, those not yet told on this stream
};
/// A part of a file that a CaseAnswer named.
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

/// The worker cannot judge at all; it ends after this.
struct Failed {
  Error error;
};
/// The worker is to end: nothing more is wanted of it.
struct Bye {};

using FromWorker =
    std::variant<Hello, Ready, Alive, Done, OpenCases, NextCase, CloseCases, Fetch, Failed>;
using ToWorker = std::variant<Setup, Assignment, CaseAnswer, Chunk, Alive, Bye>;

/// A line without its end.
std::string LineOf(const FromWorker& message);
std::string LineOf(const ToWorker& message);
/// Errors say what is wrong with the line; its text is not repeated.
Result<FromWorker> ReadFromWorker(std::string_view line);
Result<ToWorker> ReadToWorker(std::string_view line);

/// Where a line that holds a hello begins; nothing for any other. What a login shell has printed
/// may stand before it.
std::optional<size_t> FindHello(std::string_view line);

}  // namespace cupel::serve
