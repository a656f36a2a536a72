// Lets many dialogues ask one thread what is wrong with their kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace cupel::evolve {

class FaultDesk {
 public:
  using Find = std::function<Result<std::string>(const std::string& source)>;

  /// Waits until the serving thread has answered. Any thread.
  Result<std::string> Ask(std::string source) {
    std::future<Result<std::string>> answer;
    {
      const std::lock_guard lock(mutex_);
      Question& question = open_.emplace_back();
      question.source = std::move(source);
      answer = question.answer.get_future();
    }
    arrived_.notify_one();
    return answer.get();
  }

  /// Ends the wait of the serving thread. Any thread.
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    arrived_.notify_one();
  }

  /// Answers one question, if one arrives in time. The serving thread only.
  void Serve(const Find& find, std::chrono::milliseconds wait) {
    std::optional<Question> question;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait_for(lock, wait, [this] { return woken_ || !open_.empty(); });
      woken_ = false;
      if (open_.empty()) return;
      question.emplace(std::move(open_.front()));
      open_.pop_front();
    }
    question->answer.set_value(find(question->source));
  }

 private:
  struct Question {
    std::string source;
    std::promise<Result<std::string>> answer;
  };

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Question> open_;
  bool woken_ = false;
};

}  // namespace cupel::evolve
