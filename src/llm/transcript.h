// A file of conversations, one JSON object a line: what was asked, what was answered, what it cost.
// Written by a Sink, read to repeat a run (replay.h) and to go on with a budget.
//   {"kind": "began", "hash", "attempt", "worst_nano_usd", "worst_tokens"}
//   {"kind": "ended", "hash", "role", "attempt", "request", "answer", "error" or null,
//    "charged_nano_usd", "charged_tokens", "seconds"}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "llm/sink.h"
#include "os/fd.h"

namespace cupel::llm {

/// Appends; every line is on the disk before the call returns. Thread-safe.
class Transcript : public Sink {
 public:
  /// Creates the file (0600), or goes on with it: a last line that was cut off is removed.
  static Result<std::unique_ptr<Transcript>> Open(const std::filesystem::path& file);
  Status Began(const Exchange& exchange) override;
  Status Ended(const Exchange& exchange) override;

 private:
  Transcript(std::filesystem::path file, os::Fd fd) : file_(std::move(file)), fd_(std::move(fd)) {}
  Status Append(const Json& line);

  const std::filesystem::path file_;
  std::mutex mutex_;
  os::Fd fd_;
};

struct Recorded {
  std::vector<Exchange> exchanges;  // those that ended
  /// What was charged, with the worst case of those that began and never ended.
  Spending spent;
};

/// Error: a line that is not of a transcript, except a last one that was cut off.
Result<Recorded> ReadTranscript(const std::filesystem::path& file);

}  // namespace cupel::llm
