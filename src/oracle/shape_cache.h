// Descriptions of calls without data, on disk: PyTorch needs seconds for the first of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "base/json.h"
#include "os/file_store.h"

namespace cupel::oracle {

/// One file for each key, which identifies a task's code and the PyTorch that ran it. It is only a
/// cache: a file that cannot be read or written is no error.
class ShapeCache {
 public:
  /// If `root` is empty, nothing is kept.
  ShapeCache(std::filesystem::path root, std::stop_token stop);

  /// An object of descriptions by setting; empty if there is none.
  Json Load(const std::string& key) const;
  /// Does nothing if `calls` has too many settings.
  void Save(const std::string& key, const Json& calls) const;

 private:
  os::FileStore files_;
};

}  // namespace cupel::oracle
