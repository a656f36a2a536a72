// SPDX-License-Identifier: Apache-2.0
#include "serve/wire_end.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "os/fd.h"
#include "os/lines.h"

namespace cupel::serve {

WireEnd::WireEnd(const WireOptions& options) : options_(options) {
  reader_ = std::thread([this] { Read(); });
  heartbeat_thread_ = std::thread([this] { SendHeartbeats(); });
}

WireEnd::~WireEnd() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = is_over_ = true;
  }
  changed_.notify_all();
  stop_.request_stop();  // wakes the reader
  reader_.join();
  heartbeat_thread_.join();
}

Status WireEnd::Write(const std::string& line) {
  const std::lock_guard lock(writing_);
  return os::WriteAll(options_.out, line, {}, stop());
}

Status WireEnd::Send(const FromWorker& message) { return Write(LineOf(message) + "\n"); }

void WireEnd::Show(Alive alive) {
  std::unique_lock lock(mutex_);
  const bool is_news = alive.stage != shown_.stage || alive.ticket != shown_.ticket;
  shown_ = std::move(alive);
  const Alive copy = shown_;
  lock.unlock();
  if (is_news) (void)Send(copy);
}

Result<ToWorker> WireEnd::Receive() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_over_ || !received_.empty(); });
  if (received_.empty()) return Fail(ErrorCode::kCancelled, "the coordinator has ended");
  ToWorker message = std::move(received_.front());
  received_.pop_front();
  return message;
}

bool WireEnd::is_over() {
  const std::lock_guard lock(mutex_);
  return is_over_;
}

/// Stops the current work. If it does not stop, SendHeartbeats ends the process; its children end
/// with it.
void WireEnd::Close(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    received_.clear();
  }
  changed_.notify_all();
  if (!why.empty()) std::fprintf(stderr, "cupel worker: %s\n", why.c_str());
  stop_.request_stop();
}

void WireEnd::Read() {
  os::Lines lines(kLongestLine);
  std::string buffer(1u << 16, '\0');
  for (;;) {
    const auto n = os::ReadSome(options_.in, buffer, options_.silence, stop());
    if (!n) {
      return Close(n.error().code == ErrorCode::kCancelled ? "" : n.error().message);
    }
    if (*n == 0) return Close("");
    lines.Feed({buffer.data(), *n});
    for (;;) {
      auto line = lines.Next();
      if (!line) return Close(line.error().message);
      if (!*line) break;
      auto message = ReadToWorker(**line);
      if (!message) return Close("broken line: " + message.error().message);
      if (std::holds_alternative<Bye>(*message)) return Close("");
      if (std::holds_alternative<Alive>(*message)) continue;
      {
        const std::lock_guard lock(mutex_);
        received_.push_back(std::move(*message));
      }
      changed_.notify_all();
    }
  }
}

void WireEnd::SendHeartbeats() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    if (changed_.wait_for(lock, options_.heartbeat, [this] { return is_over_; })) break;
    const Alive alive = shown_;
    lock.unlock();
    (void)Send(alive);
    lock.lock();
  }
  changed_.wait_for(lock, options_.grace, [this] { return is_ending_; });
  if (!is_ending_) std::_Exit(130);
}

}  // namespace cupel::serve
