// SPDX-License-Identifier: Apache-2.0
#include "serve/remote_oracle.h"

#include <algorithm>
#include <utility>

#include "task/case_file.h"

namespace cupel::serve {

/// The worker's side of one stream.
class RemoteOracle::Answers final : public oracle::Oracle::Stream {
 public:
  Answers(RemoteOracle& oracle, int64_t stream, std::string task, std::string setting)
      : oracle_(oracle), stream_(stream), task_(std::move(task)), setting_(std::move(setting)) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() override { (void)oracle_.wire_.Send(CloseCases{stream_}); }

  Result<std::optional<oracle::CaseOutcome>> Next() override {
    using Found = std::optional<oracle::CaseOutcome>;
    if (has_ended_) return Found();
    TRY_ASSIGN(CaseAnswer answer, oracle_.Next(stream_));
    if (answer.error) return tl::unexpected<Error>(std::move(*answer.error));
    has_ended_ = answer.sha256.empty();
    if (answer.failure) return Found(std::move(*answer.failure));
    if (has_ended_) return Found();
    TRY_ASSIGN(os::MappedFile file, oracle_.FileOf(answer));
    TRY_ASSIGN(task::Case result,
               task::ReadCase(std::move(file), "case " + answer.content_hash.substr(0, 12)));
    result.task_name = task_;
    result.setting = setting_;
    result.content_hash = answer.content_hash;
    return Found(std::move(result));
  }

 private:
  RemoteOracle& oracle_;
  int64_t stream_;
  std::string task_, setting_;
  bool has_ended_ = false;
};

OpenCases RemoteOracle::Question(task::Direction direction, const task::Setting& setting,
                                 oracle::Distribution distribution) {
  OpenCases question;
  question.stream = ++last_stream_;
  question.ticket = ticket_;
  question.backward = direction == task::Direction::kBackward;
  question.setting_id = setting.id;
  question.init = setting.init;
  question.inputs = setting.inputs;
  question.distribution = task::Name(distribution);
  return question;
}

Result<std::unique_ptr<oracle::Oracle::Stream>> RemoteOracle::Begin(const task::Task& task,
                                                                    OpenCases question) {
  const int64_t stream = question.stream;
  std::string setting = question.setting_id;
  TRY(wire_.Send(std::move(question)));
  return std::unique_ptr<Stream>(
      std::make_unique<Answers>(*this, stream, task.name, std::move(setting)));
}

Result<std::unique_ptr<oracle::Oracle::Stream>> RemoteOracle::Open(
    const task::Task& task, task::Direction direction, const task::Setting& setting, int count,
    std::optional<uint64_t> seed, bool fresh, oracle::Distribution distribution) {
  OpenCases question = Question(direction, setting, distribution);
  question.count = std::max(count, 0);
  question.seed = seed;
  question.fresh = fresh;
  return Begin(task, std::move(question));
}

Result<std::unique_ptr<oracle::Oracle::Stream>> RemoteOracle::OpenSeeds(
    const task::Task& task, task::Direction direction, const task::Setting& setting,
    const std::vector<uint64_t>& seeds, oracle::Distribution distribution) {
  OpenCases question = Question(direction, setting, distribution);
  question.seeds = seeds;
  return Begin(task, std::move(question));
}

Result<CaseAnswer> RemoteOracle::Next(int64_t stream) {
  TRY(wire_.Send(NextCase{stream}));
  TRY_ASSIGN(ToWorker message, wire_.Receive());
  auto* answer = std::get_if<CaseAnswer>(&message);
  if (answer == nullptr || answer->stream != stream) {
    return Fail(ErrorCode::kInternal, "the coordinator sent an unexpected answer");
  }
  for (std::string& warning : answer->warnings) {
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) {
      warnings_.push_back(std::move(warning));
    }
  }
  return std::move(*answer);
}

Result<os::MappedFile> RemoteOracle::FileOf(const CaseAnswer& answer) {
  return store_.Get(answer.sha256, answer.bytes, [&](int64_t offset) -> Result<std::string> {
    TRY(wire_.Send(Fetch{answer.sha256, offset}));
    TRY_ASSIGN(ToWorker message, wire_.Receive());
    auto* chunk = std::get_if<Chunk>(&message);
    if (chunk == nullptr || chunk->sha256 != answer.sha256 || chunk->offset != offset) {
      return Fail(ErrorCode::kInternal,
                  "the coordinator sent another part of the case than requested");
    }
    if (chunk->error) return tl::unexpected<Error>(std::move(*chunk->error));
    return std::move(chunk->data);
  });
}

}  // namespace cupel::serve
