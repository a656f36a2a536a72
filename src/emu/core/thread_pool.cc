// Tested by thread_pool_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

namespace cupel::emu {
namespace {

constexpr int kMostThreads = 256;

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int wanted = std::clamp(threads > 0 ? threads : UsableCores(), 1, kMostThreads);
  for (int worker = 1; worker < wanted; ++worker) {
    threads_.emplace_back([this, worker] { Loop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Loop(int worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    const std::function<void(int)>* work = work_;
    lock.unlock();
    (*work)(worker);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

void ThreadPool::Run(const std::function<void(int)>& work) {
  if (threads_.empty()) {
    work(0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    running_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  wake_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0; });
}

void ThreadPool::ParallelFor(uint64_t count, uint64_t grain,
                             const std::function<void(uint64_t, uint64_t)>& body) {
  grain = std::max<uint64_t>(grain, 1);
  if (count <= grain) {
    if (count > 0) body(0, count);
    return;
  }
  std::atomic<uint64_t> next{0};
  Run([&](int) {
    while (true) {
      const uint64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      body(begin, std::min(count, begin + grain));
    }
  });
}

}  // namespace cupel::emu
