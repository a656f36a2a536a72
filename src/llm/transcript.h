// A file of conversations, one JSON object per line: questions, answers and costs. Written by a
// Sink. Read to replay a run (replay.h) and to continue with a budget.
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

/// Appends to the file. Every line is on disk before the call returns. Thread-safe.
class Transcript : public Sink {
 public:
  /// Creates the file (0600), or continues it; removes an incomplete last line.
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
  std::vector<Exchange> exchanges;  // only those that ended
  /// The charges, plus the worst case of exchanges that never ended.
  Spending spent;
};

/// Error: a line is not a transcript line. Ignores an incomplete last line.
Result<Recorded> ReadTranscript(const std::filesystem::path& file);

}  // namespace cupel::llm
