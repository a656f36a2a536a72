// A worker's place in a crew: the command that fills it, the worker that does now, and what it was
// given. SPDX-License-Identifier: Apache-2.0
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

/// What a result must say to be the one that was asked for.
struct Expected {
  std::string kernel, source_hash, task, task_hash, direction;
  std::string setting;  // that is timed; empty: a verdict is expected
};
Expected ExpectedOf(const Assignment& work);
/// Why `verdict` is no answer to it.
std::optional<std::string> WhyNotThis(const Expected& expected, const Json& verdict);
/// Why a worker's result that is no error is no answer to it.
std::optional<std::string> WhyNot(const Expected& expected, const Done& done);
/// True for an Error that another machine may not have.
bool IsOfThatMachine(const Error& error);

/// A case that the worker was told of and may fetch.
struct SentFile {
  std::string sha256;
  os::MappedFile file;
};

struct Place {
  enum class Stage { kDown, kStarting, kPreparing, kIdle, kBusy };

  size_t index = 0;
  std::vector<std::string> argv;
  Setup setup;
  std::string name;  // for people
  bool is_local = false;

  Stage stage = Stage::kDown;
  std::unique_ptr<Link> link;
  int64_t link_id = 0;
  Ready ready;
  int failed_starts = 0, errors_in_a_row = 0;
  bool is_given_up = false;
  std::string why;  // the last one was lost
  std::chrono::steady_clock::time_point began, begin_at, item_began, lost_at;

  std::optional<size_t> item;
  std::optional<size_t> setting;  // of the item's Timing; none: the item is judged
  int64_t ticket = 0;
  Expected expected;
  std::map<int64_t, SentFile> files;  // the last of each stream

  /// Ends the worker; what it was doing is left to the caller.
  void Clear();
};

/// The part of a file that a worker asks for.
Chunk ChunkOf(const Place& place, const Fetch& fetch);

}  // namespace cupel::serve
