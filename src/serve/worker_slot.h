// A slot of a worker pool: the command that starts its workers, its current worker, and the work
// given to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/mapped_file.h"
#include "serve/link.h"
#include "serve/protocol.h"

namespace cupel::serve {

/// What a worker's result must contain to match its assignment.
struct Expected {
  std::string kernel, source_hash, task, task_hash, direction;
  std::string setting;  // the setting to be timed; empty: a verdict is expected
};
Expected ExpectedOf(const Assignment& work);
/// Why `verdict` does not match; nullopt if it does.
std::optional<std::string> VerdictMismatch(const Expected& expected, const Json& verdict);
/// Why a worker's result (not an error) does not match; nullopt if it does.
std::optional<std::string> ResultMismatch(const Expected& expected, const Done& done);
/// True for an Error that may not happen on another machine.
bool IsMachineError(const Error& error);

/// A case whose hash was sent to the worker, which may fetch it.
struct SentFile {
  std::string sha256;
  os::MappedFile file;
};

struct WorkerSlot {
  enum class Stage { kDown, kStarting, kPreparing, kIdle, kBusy };

  size_t index = 0;
  std::vector<std::string> argv;
  Setup setup;
  std::string name;  // for messages
  bool is_local = false;

  Stage stage = Stage::kDown;
  std::unique_ptr<Link> link;
  int64_t link_id = 0;
  Ready ready;
  int failed_starts = 0, errors_in_a_row = 0;
  bool is_given_up = false;
  std::string why;     // why the last worker was lost
  std::string remedy;  // if the worker named one
  std::chrono::steady_clock::time_point began, begin_at, item_began, lost_at;

  std::optional<size_t> item;
  std::optional<size_t> setting;  // index in the item's Timing; none: the item is being judged
  int64_t ticket = 0;
  Expected expected;
  std::map<int64_t, SentFile> files;  // the last file of each stream

  /// Ends the worker. Does not change the item that it was working on.
  void Clear();
};

/// The part of a file that a worker asks for.
Chunk ChunkOf(const WorkerSlot& slot, const Fetch& fetch);

}  // namespace cupel::serve
