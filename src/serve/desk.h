// Answers workers that ask for cases: a thread with the coordinator's oracle, which computes or
// takes from its pool, while the crew goes on. SPDX-License-Identifier: Apache-2.0
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

class CaseDesk {
 public:
  using MakeOracle = std::function<Result<std::unique_ptr<oracle::Oracle>>()>;

  /// An answer to NextCase, and the file that it names.
  struct Answer {
    int64_t who = 0;
    CaseAnswer answer;
    os::MappedFile file;
  };

  /// `make` is called when the first case is asked for.
  explicit CaseDesk(MakeOracle make);
  ~CaseDesk();
  CaseDesk(const CaseDesk&) = delete;
  CaseDesk& operator=(const CaseDesk&) = delete;

  /// Streams are told apart by who asks and by the asker's number. None of these waits.
  void Open(int64_t who, OpenCases question, task::Task task);
  void Next(int64_t who, int64_t stream);
  void Close(int64_t who, int64_t stream);
  /// Who is gone.
  void CloseAll(int64_t who);

  /// Readable when Collect has something.
  int fd() const { return woken_.get(); }
  std::vector<Answer> Collect();

 private:
  using Key = std::pair<int64_t, int64_t>;  // who, stream
  struct Stream {
    Result<std::unique_ptr<oracle::Oracle::Stream>> cases;
    size_t warnings_told = 0;
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
  // Of the thread alone.
  std::unique_ptr<oracle::Oracle> oracle_;
  std::map<Key, Stream> streams_;
  std::thread thread_;
};

}  // namespace cupel::serve
