// SPDX-License-Identifier: Apache-2.0
#include "oracle/filter.h"

#include <fmt/format.h>

#include "oracle/environment.h"
#include "oracle/filter_reply.h"
#include "oracle/load.h"
#include "oracle/python.h"
#include "oracle/torch_child.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

}  // namespace

const char* Name(OperationMeasures::How how) {
  switch (how) {
    case OperationMeasures::How::kInput:
      return "input";
    case OperationMeasures::How::kZeros:
      return "zeros";
    case OperationMeasures::How::kMean:
      return "mean";
  }
  return "?";
}

struct Filter::Impl {
  FilterOptions options;
  std::optional<Python> python;
  std::unique_ptr<TorchChild> child;
  std::string loaded;  // the task that the child has loaded
  int64_t last_id = 0;

  Status EnsureChild();
  /// Returns an outcome if the task's code does not load.
  Result<std::optional<MeasureOutcome>> Load(const task::Task& task, task::Direction direction);
  Result<MeasureOutcome> Await(int64_t id);
  void Forget() {
    child.reset();
    loaded.clear();
  }
};

Status Filter::Impl::EnsureChild() {
  if (child && child->alive()) return {};
  Forget();
  if (!python) {
    const fs::path memory = options.cache.empty() ? fs::path() : options.cache / "pythons.json";
    TRY_ASSIGN(python, FindPython(options.python, memory, options.stop));
  }
  if (options.progress) options.progress(fmt::format("starting PyTorch ({})", python->program));
  ChildOptions spawn{
      python->program, options.script, StepDeadline(std::chrono::seconds(0)), options.progress, 0,
      options.stop};
  TRY_ASSIGN(child, TorchChild::Start(std::move(spawn)));
  return {};
}

Result<std::optional<MeasureOutcome>> Filter::Impl::Load(const task::Task& task,
                                                         task::Direction direction) {
  const std::string id = ChildTaskId(task, direction);
  if (loaded == id) return std::optional<MeasureOutcome>();
  loaded.clear();
  const Status status = LoadInChild(*child, ++last_id, task, direction);
  if (status) {
    loaded = id;
    return std::optional<MeasureOutcome>();
  }
  const Error& error = status.error();
  if (error.code == ErrorCode::kInvalidArgument) {
    return std::optional<MeasureOutcome>(SettingFailure{error.message});
  }
  if (error.code == ErrorCode::kTimeout) {
    Forget();
    return std::optional<MeasureOutcome>(TooMuch{"too slow: " + error.message});
  }
  return tl::unexpected<Error>(error);
}

/// filter.py checks the deadline between its steps. If one step runs on after the deadline, this
/// function ends the child.
Result<MeasureOutcome> Filter::Impl::Await(int64_t id) {
  const milliseconds patience = options.deadline * 3 / 2 + milliseconds(10'000);
  TRY_ASSIGN(const std::optional<Json> reply, child->ReceiveSoon(id, patience));
  if (reply) return ReadMeasures(*reply);
  if (!child->alive()) {
    const std::string how = child->ExitReason();
    Forget();
    return MeasureOutcome(SettingFailure{fmt::format("PyTorch ended while running it: {}", how)});
  }
  Forget();
  return MeasureOutcome(TooMuch{
      fmt::format("too slow: one step did not finish within {} s", patience.count() / 1000)});
}

Filter::Filter(FilterOptions options) : impl_(new Impl{}) { impl_->options = std::move(options); }
Filter::~Filter() = default;

Result<MeasureOutcome> Filter::Measure(const task::Task& task, task::Direction direction,
                                       const task::Setting& setting,
                                       std::span<const uint64_t> seeds) {
  if (seeds.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument, "the filter needs at least two seeds");
  }
  TRY(RequireDirection(task, direction));
  TRY(impl_->EnsureChild());
  TRY_ASSIGN(std::optional<MeasureOutcome> failure, impl_->Load(task, direction));
  if (failure) return std::move(*failure);
  const int64_t id = ++impl_->last_id;
  TRY(impl_->child->Send({{"op", "measure"},
                          {"id", id},
                          {"task", ChildTaskId(task, direction)},
                          {"init", setting.init},
                          {"inputs", setting.inputs},
                          {"seeds", std::vector<uint64_t>(seeds.begin(), seeds.end())},
                          {"seconds", impl_->options.deadline.count()},
                          {"memory", impl_->options.memory}}));
  return impl_->Await(id);
}

}  // namespace cupel::oracle
