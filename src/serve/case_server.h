// Serves cases to workers without PyTorch. A thread owns the coordinator's oracle, which computes
// cases or takes them from its pool, while the worker pool keeps running.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "oracle/oracle.h"
#include "os/fd.h"
#include "os/mapped_file.h"
#include "serve/protocol.h"
#include "task/task.h"

namespace cupel::serve {

class CaseServer {
 public:
  using MakeOracle = std::function<Result<std::unique_ptr<oracle::Oracle>>()>;

  /// An answer to NextCase, and the file that it names.
  struct Answer {
    int64_t worker = 0;
    CaseAnswer answer;
    os::MappedFile file;
  };

  /// `make` is called on the first request, on the server's thread.
  explicit CaseServer(MakeOracle make);
  ~CaseServer();
  CaseServer(const CaseServer&) = delete;
  CaseServer& operator=(const CaseServer&) = delete;

  /// `worker`: the requesting worker (WorkerSlot::link_id); with the worker's stream number it
  /// identifies the stream. These functions only queue the request and return.
  void Open(int64_t worker, OpenCases question, task::Task task);
  void Next(int64_t worker, int64_t stream);
  void Close(int64_t worker, int64_t stream);
  /// Closes all streams of a worker that has ended.
  void CloseAll(int64_t worker);

  /// Readable when Collect would return answers.
  int fd() const { return woken_.get(); }
  std::vector<Answer> Collect();

 private:
  using Key = std::pair<int64_t, int64_t>;  // worker, stream
  struct Stream {
    Result<std::unique_ptr<oracle::Oracle::Stream>> cases;
    size_t warnings_sent = 0;
  };

  void Post(std::function<void()> work);
  void Work();
  Stream Begin(const OpenCases& question, const task::Task& task);
  Answer AnswerTo(Key key);

  MakeOracle make_;
  os::Fd woken_, wake_;  // a pipe
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> work_;
  std::vector<Answer> answers_;
  bool is_closing_ = false;
  // Used only by the thread.
  std::unique_ptr<oracle::Oracle> oracle_;
  std::map<Key, Stream> streams_;
  std::thread thread_;
};

}  // namespace cupel::serve
