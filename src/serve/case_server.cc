// SPDX-License-Identifier: Apache-2.0
#include "serve/case_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/hash.h"
#include "task/distribution.h"

namespace cupel::serve {
CaseServer::CaseServer(MakeOracle make) : make_(std::move(make)) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0) {
    woken_ = os::Fd(fds[0]);
    wake_ = os::Fd(fds[1]);
  }
  thread_ = std::thread([this] { Work(); });
}

CaseServer::~CaseServer() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    work_.clear();
  }
  posted_.notify_all();
  thread_.join();
}

void CaseServer::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  posted_.notify_all();
}

void CaseServer::Work() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return is_closing_ || !work_.empty(); });
      if (is_closing_) break;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
  streams_.clear();  // before the oracle that they belong to
  oracle_.reset();
}

CaseServer::Stream CaseServer::Begin(const OpenCases& question, const task::Task& task) {
  const auto fail = [](Error error) { return Stream{tl::unexpected<Error>(std::move(error))}; };
  const auto distribution = task::DistributionNamed(question.distribution);
  if (!distribution || question.count > 100'000) {
    return fail({ErrorCode::kInvalidArgument,
                 "a worker asked for an unknown distribution or too many cases", ""});
  }
  if (!oracle_) {
    auto made = make_();
    if (!made) return fail(made.error());
    oracle_ = std::move(*made);
  }
  const task::Direction direction =
      question.backward ? task::Direction::kBackward : task::Direction::kForward;
  task::Setting setting;
  setting.id = question.setting_id;
  setting.init = question.init;
  setting.inputs = question.inputs;
  if (question.seeds) {
    return Stream{oracle_->OpenSeeds(task, direction, setting, *question.seeds, *distribution)};
  }
  return Stream{oracle_->Open(task, direction, setting, static_cast<int>(question.count),
                              question.seed, question.fresh, *distribution)};
}

CaseServer::Answer CaseServer::AnswerTo(Key key) {
  Answer reply;
  reply.worker = key.first;
  reply.answer.stream = key.second;
  const auto fail = [&](Error error) {
    reply.answer.error = std::move(error);
    return std::move(reply);
  };
  const auto found = streams_.find(key);
  if (found == streams_.end()) {
    return fail({ErrorCode::kInvalidArgument,
                 "a worker asked for a case of a stream that is not open", ""});
  }
  Stream& stream = found->second;
  if (!stream.cases) return fail(stream.cases.error());
  auto next = (*stream.cases)->Next();
  if (!next) return fail(next.error());
  const auto& warnings = oracle_->warnings();
  for (; stream.warnings_sent < warnings.size(); ++stream.warnings_sent) {
    reply.answer.warnings.push_back(warnings[stream.warnings_sent]);
  }
  if (!*next) return reply;  // end of the stream
  if (auto* failure = std::get_if<oracle::SettingFailure>(&**next)) {
    reply.answer.failure = std::move(*failure);
    return reply;
  }
  auto& computed = std::get<task::Case>(**next);
  reply.file = std::move(computed.mapping);
  reply.answer.bytes = static_cast<int64_t>(reply.file.bytes().size());
  reply.answer.content_hash = computed.content_hash;
  reply.answer.sha256 = Sha256Hex(reply.file.text());
  return reply;
}

void CaseServer::Open(int64_t worker, OpenCases question, task::Task task) {
  Post([this, worker, question = std::move(question), task = std::move(task)] {
    const Key key{worker, question.stream};
    Stream stream = Begin(question, task);
    stream.warnings_sent = oracle_ ? oracle_->warnings().size() : 0;
    streams_.insert_or_assign(key, std::move(stream));
  });
}

void CaseServer::Next(int64_t worker, int64_t stream) {
  Post([this, worker, stream] {
    Answer answer = AnswerTo({worker, stream});
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(std::move(answer));
    }
    (void)!write(wake_.get(), "", 1);
  });
}

void CaseServer::Close(int64_t worker, int64_t stream) {
  Post([this, worker, stream] { streams_.erase({worker, stream}); });
}

void CaseServer::CloseAll(int64_t worker) {
  Post([this, worker] {
    std::erase_if(streams_, [worker](const auto& entry) { return entry.first.first == worker; });
  });
}

std::vector<CaseServer::Answer> CaseServer::Collect() {
  char buffer[64];
  while (read(woken_.get(), buffer, sizeof buffer) > 0) {
  }
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace cupel::serve
