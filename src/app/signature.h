// The arguments of a task's function and of its module, which Python answers need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

#include "app/options.h"
#include "base/json.h"
#include "base/result.h"
#include "oracle/importer.h"
#include "task/task.h"

namespace cupel::app {

/// Answers of signature.py. They are kept on disk, because PyTorch takes seconds to start; at most
/// one process runs at a time. Thread-safe.
class Signatures {
 public:
  explicit Signatures(Common common) : common_(std::move(common)) {}

  /// Errors: those of oracle::Importer::Signature.
  Result<Json> Of(const task::Task& task, task::Direction direction, const task::Setting& setting);

 private:
  const Common common_;
  std::mutex mutex_;
  std::unique_ptr<oracle::Importer> importer_;  // started when it is needed
};

}  // namespace cupel::app
