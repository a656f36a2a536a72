// SPDX-License-Identifier: Apache-2.0
#include "build/compile_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/name_some.h"

namespace cupel::build {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFirst{5};

std::string Entry(const std::string& file, const std::string& tool) {
  return fmt::format("{} ({})", tool, file);
}

}  // namespace

CompileWatch::CompileWatch(size_t files, Say say) : files_(files), say_(std::move(say)) {
  if (say_) thread_ = std::thread([this] { Watch(); });
}

CompileWatch::~CompileWatch() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CompileWatch::Begins(const std::string& file, const std::string& tool) {
  const std::lock_guard lock(mutex_);
  running_.insert(Entry(file, tool));
}

void CompileWatch::Ends(const std::string& file, const std::string& tool) {
  const std::lock_guard lock(mutex_);
  const auto at = running_.find(Entry(file, tool));
  if (at != running_.end()) running_.erase(at);
}

void CompileWatch::Finishes() {
  const std::lock_guard lock(mutex_);
  ++finished_;
}

std::string CompileWatch::Text() const {
  const std::lock_guard lock(mutex_);
  const std::vector<std::string> running(running_.begin(), running_.end());
  std::string text = "compiling";
  if (files_ > 1) text += fmt::format(", {} of {} files done", finished_, files_);
  if (!running.empty()) text += ": " + NameSome(running, 3);
  return text;
}

void CompileWatch::Watch() {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  auto period = std::chrono::duration_cast<Clock::duration>(kFirst);
  while (!ended_.wait_for(lock, period, [this] { return has_ended_; })) {
    lock.unlock();
    say_(Text());
    period = std::max(period, (Clock::now() - start) / 8);  // so that the log stays short
    lock.lock();
  }
}

}  // namespace cupel::build
