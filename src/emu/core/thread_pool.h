// A fixed set of threads that run one piece of work at a time together with the caller. Kept small
// on purpose: an atomic counter distributes blocks of a grid and rows of a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cupel::emu {

/// Only one Run or ParallelFor at a time, from one thread. Work must not throw and must not call
/// the pool.
class ThreadPool {
 public:
  /// `threads` counts the caller; 0 means one for each core that this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls work(w) once for each worker w in [0, size()), concurrently; worker 0 is the caller.
  /// Returns when all calls have returned.
  void Run(const std::function<void(int)>& work);

  /// Calls body(begin, end) over disjoint ranges that cover [0, count), each at most `grain` long.
  void ParallelFor(uint64_t count, uint64_t grain,
                   const std::function<void(uint64_t, uint64_t)>& body);

 private:
  void Loop(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int)>* work_ = nullptr;
  uint64_t generation_ = 0;
  int running_ = 0;
  bool stop_ = false;
};

}  // namespace cupel::emu
