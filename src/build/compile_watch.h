// Says every few seconds which files a build still compiles, and with which tool.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace cupel::build {

/// Thread-safe. Calls `say` from a thread of its own, the last time before the destructor returns.
class CompileWatch {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `files`: how many there are. Without `say` it does nothing.
  CompileWatch(size_t files, Say say);
  ~CompileWatch();
  CompileWatch(const CompileWatch&) = delete;
  CompileWatch& operator=(const CompileWatch&) = delete;

  /// `tool` begins to work on `file`, and ends. Several tools may work on a file.
  void Begins(const std::string& file, const std::string& tool);
  void Ends(const std::string& file, const std::string& tool);
  /// A file is compiled.
  void Finishes();

  /// "compiling, 1 of 3 files done: cicc (conv.cu), ptxas (scan.cu)"
  std::string Text() const;

 private:
  void Watch();

  const size_t files_;
  const Say say_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  size_t finished_ = 0;
  std::multiset<std::string> running_;  // "cicc (conv.cu)"
  std::thread thread_;
};

}  // namespace cupel::build
