// A worker: says who it is, gets ready as it is told, and judges what it is given, one item at a
// time, until its coordinator wants nothing more. It knows the protocol and the files; what judges
// is given by the program. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "serve/protocol.h"
#include "serve/wire_end.h"

namespace cupel::serve {

/// Where an item's files lie on this machine. The task's path is the same whenever its files are.
struct Unpacked {
  std::filesystem::path kernel, task;
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual Ready Describe() const = 0;
  /// Fills in verdict and bench. An Error means that cupel could not do its work.
  virtual Result<Done> Do(const Assignment& work, const Unpacked& files) = 0;
};

/// Makes what judges; called once, when the coordinator has said how. `wire` outlives it.
using OpenJudge = std::function<Result<std::unique_ptr<Judge>>(const Setup& setup, WireEnd& wire)>;

/// Returns when the coordinator says bye or has gone. Errors: nothing that could be told the
/// coordinator; they are told, too.
Status RunWorker(const Hello& hello, const WireOptions& streams, const OpenJudge& open);

}  // namespace cupel::serve
