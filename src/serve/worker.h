// A worker: sends its identity, prepares as the coordinator's setup says, and judges one item at a
// time until the coordinator ends. It handles the protocol and the files; the program supplies the
// Judge.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "serve/protocol.h"
#include "serve/wire_end.h"

namespace cupel::serve {

/// The paths of an item's files on this machine. Tasks with equal files have equal paths.
struct Unpacked {
  std::filesystem::path kernel, task;
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual Ready Describe() const = 0;
  /// Returns a verdict or a bench, or sets is_stale. Errors: cupel could not do its work.
  virtual Result<Done> Do(const Assignment& work, const Unpacked& files) = 0;
};

/// Makes the judge. Called once, when the coordinator's setup has arrived. `wire` outlives it.
using OpenJudge = std::function<Result<std::unique_ptr<Judge>>(const Setup& setup, WireEnd& wire)>;

/// Returns when the coordinator says bye or has ended. Errors: the worker cannot judge; the error
/// is also sent to the coordinator.
Status RunWorker(const Hello& hello, const WireOptions& streams, const OpenJudge& open);

}  // namespace cupel::serve
