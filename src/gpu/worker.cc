// SPDX-License-Identifier: Apache-2.0
#include "gpu/worker.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error_json.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "gpu/ceilings.h"
#include "gpu/clock.h"
#include "gpu/nvml.h"
#include "gpu/operators.h"
#include "gpu/page_lock.h"
#include "gpu/program.h"
#include "gpu/protocol.h"
#include "gpu/timer.h"
#include "gpu/timing_protocol.h"
#include "os/frames.h"
#include "plan/codec.h"
#include "records/json.h"

namespace cupel::gpu {
namespace {

constexpr std::chrono::hours kNoDeadline{24 * 365};
constexpr std::chrono::seconds kWriteDeadline{60};

using Arguments = std::vector<std::span<const std::byte>>;

class Worker {
 public:
  Worker(std::unique_ptr<Device> device, SharedMemory memory)
      : device_(std::move(device)), memory_(std::move(memory)), lock_(*device_) {}

  Result<Json> Answer(const Json& request) {
    if (request.contains("load")) return Load(request);
    if (request.contains("forget")) {
      TRY_ASSIGN(const int64_t id, JsonInt(request, "forget", "request"));
      timer_.reset();  // it may borrow the program
      programs_.erase(id);
      return Json::object();
    }
    if (request.contains("execute")) return Execute(request);
    if (request.contains("timer")) return MakeTimer(request);
    if (request.contains("take")) return Take(request);
    if (request.contains("nothing")) return MeasureOverhead();
    if (request.contains("energy")) return MeasureEnergy(request);
    if (request.contains("finish")) return Finish();
    if (request.contains("state")) return State();
    if (request.contains("ceilings")) return Ceilings();
    if (request.contains("kernels")) return ToJson(KernelsFor(*device_));
    return Fail(ErrorCode::kInternal, "the GPU worker got an unknown request");
  }

 private:
  Result<Json> Load(const Json& request) {
    TRY_ASSIGN(const int64_t id, JsonInt(request, "load", "request"));
    build::Images images;
    ReplayOptions options;
    TRY_ASSIGN(options.vary_surroundings, JsonBool(request, "vary_surroundings", "request"));
    TRY_ASSIGN(const Json* list, JsonArray(request, "images", "request"));
    for (const Json& item : *list) {
      auto image = std::make_shared<build::Image>();
      TRY_ASSIGN(image->ptx, JsonString(item, "ptx", "request"));
      TRY_ASSIGN(image->cubin, JsonString(item, "cubin", "request"));
      images.push_back(std::move(image));
      options.variables.push_back(item.at("variables").get<std::vector<std::string>>());
    }
    TRY_ASSIGN(auto program, LoadProgram(*device_, images, std::move(options)));
    programs_[id] = std::move(program);
    return Json::object();
  }

  Result<Json> Execute(const Json& request) {
    TRY_ASSIGN(const int64_t id, JsonInt(request, "execute", "request"));
    const auto program = programs_.find(id);
    if (program == programs_.end()) return Fail(ErrorCode::kInternal, "no such program");
    TRY_ASSIGN(const Json* plan_json, JsonObject(request, "plan", "request"));
    TRY_ASSIGN(const plan::Plan plan, plan::FromJson(*plan_json, "request.plan"));
    TRY_ASSIGN(const Json* places, JsonArray(request, "arguments", "request"));
    TRY_ASSIGN(const int64_t results, JsonInt(request, "results", "request"));
    TRY_ASSIGN(const Arguments arguments, ArgumentsAt(*places, static_cast<uint64_t>(results)));
    engine::RunOptions options;
    TRY_ASSIGN(const int64_t poison, JsonInt(request, "poison", "request"));
    options.poison = static_cast<int>(poison);
    TRY_ASSIGN(options.full_checks, JsonBool(request, "twice", "request"));
    options.seed = request.at("seed").get<uint64_t>();
    TRY(Prepare(request, *program->second));
    TRY_ASSIGN(const engine::Run run, program->second->Execute(plan, arguments, options));
    if (Operators* operators = device_->operators()) operators->Trim();
    TRY_ASSIGN(Json json, RunToJson(run, static_cast<uint64_t>(results), memory_));
    return Json{{"run", std::move(json)}};
  }

  /// Sets the state with which the call begins.
  static Status Prepare(const Json& request, GpuProgram& program) {
    TRY_ASSIGN(const Json* start, JsonObject(request, "start", "request"));
    TRY_ASSIGN(const bool kept, JsonBool(*start, "kept", "request.start"));
    kept ? program.KeepState() : program.ForgetState();
    if (start->contains("scramble")) program.ScrambleState(start->at("scramble").get<uint64_t>());
    return {};
  }

  Result<Arguments> ArgumentsAt(const Json& places, uint64_t end) {
    TRY_ASSIGN(const std::span<std::byte> all, memory_.Map(lock_.WorthCovering(end)));
    lock_.Cover(all);
    Arguments arguments;
    for (const Json& place : places) {
      const auto at = place.at(0).get<uint64_t>(), bytes = place.at(1).get<uint64_t>();
      arguments.push_back(all.subspan(at, bytes));
    }
    return arguments;
  }

  Result<Clock*> GetClock() {
    if (!clock_) {
      TRY_ASSIGN(clock_, Clock::Start(*device_));
    }
    return clock_.get();
  }

  /// Null if NVML is not available.
  const Nvml* GetNvml() {
    if (!asked_for_nvml_) {
      asked_for_nvml_ = true;
      if (auto nvml = Nvml::Open(device_->Uuid())) nvml_ = std::move(*nvml);
    }
    return nvml_.get();
  }

  Result<Json> MakeTimer(const Json& request) {
    timer_.reset();
    timed_plans_.clear();
    if (Operators* operators = device_->operators()) operators->Trim();
    TRY_ASSIGN(const Json* entrants, JsonArray(request, "timer", "request"));
    std::vector<TimerEntrant> timed;
    for (const Json& entrant : *entrants) {
      const auto program = programs_.find(entrant.at(0).get<int64_t>());
      if (program == programs_.end()) return Fail(ErrorCode::kInternal, "no such program");
      timed.push_back({program->second.get(), {}});
      for (const Json& item : entrant.at(1)) {
        TRY_ASSIGN(plan::Plan plan, plan::FromJson(item, "request.plan"));
        timed_plans_.push_back(std::make_unique<plan::Plan>(std::move(plan)));
        timed.back().plans.push_back(timed_plans_.back().get());
      }
    }
    TRY_ASSIGN(const int64_t results, JsonInt(request, "results", "request"));
    results_ = static_cast<uint64_t>(results);
    TRY_ASSIGN(const Json* places, JsonArray(request, "sets", "request"));
    std::vector<Arguments> sets;
    for (const Json& set : *places) {
      TRY_ASSIGN(Arguments arguments, ArgumentsAt(set, results_));
      sets.push_back(std::move(arguments));
    }
    TRY_ASSIGN(Clock * clock, GetClock());
    TRY_ASSIGN(timer_, MakeLocalTimer(*device_, *clock, GetNvml(), timed, sets));
    return Json{{"sets", timer_->Sets()}};
  }

  Result<Json> Take(const Json& request) {
    if (!timer_) return Fail(ErrorCode::kInternal, "there is no timer");
    TRY_ASSIGN(const engine::TakeRequest take, TakeRequestFromJson(request));
    TRY_ASSIGN(engine::Taken taken, timer_->Take(take));
    engine::Run run;
    run.outputs = std::move(taken.outputs);
    run.findings = std::move(taken.findings);
    run.unsupported = std::move(taken.unsupported);
    TRY_ASSIGN(Json json, RunToJson(run, results_, memory_));
    return Json{{"us", taken.us}, {"run", std::move(json)}};
  }

  Result<Json> MeasureOverhead() {
    if (!timer_) return Fail(ErrorCode::kInternal, "there is no timer");
    TRY_ASSIGN(const double us, timer_->MeasureOverhead());
    return Json{{"us", {us}}};
  }

  Result<Json> MeasureEnergy(const Json& request) {
    if (!timer_) return Fail(ErrorCode::kInternal, "there is no timer");
    TRY_ASSIGN(const int64_t entrant, JsonInt(request, "energy", "request"));
    TRY_ASSIGN(const double seconds, JsonNumber(request, "seconds", "request"));
    TRY_ASSIGN(const records::EnergyUse use,
               timer_->MeasureEnergy(static_cast<size_t>(entrant), seconds));
    return records::ToJson(use);
  }

  Result<Json> Finish() {
    if (!timer_) return Fail(ErrorCode::kInternal, "there is no timer");
    engine::Run run;
    TRY_ASSIGN(run.findings, timer_->Finish());
    timer_.reset();
    timed_plans_.clear();
    TRY_ASSIGN(Json json, RunToJson(run, results_, memory_));
    return Json{{"run", std::move(json)}};
  }

  Result<Json> State() {
    const Nvml* nvml = GetNvml();
    return records::ToJson(nvml == nullptr ? records::GpuState() : nvml->State());
  }

  Result<Json> Ceilings() {
    TRY_ASSIGN(Clock * clock, GetClock());
    TRY_ASSIGN(const records::Ceilings ceilings, MeasureCeilings(*device_, *clock));
    return records::ToJson(ceilings);
  }

  std::unique_ptr<Device> device_;
  SharedMemory memory_;
  PageLock lock_;  // locks memory_
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Nvml> nvml_;
  bool asked_for_nvml_ = false;
  std::map<int64_t, std::unique_ptr<GpuProgram>> programs_;
  std::vector<std::unique_ptr<plan::Plan>> timed_plans_;
  std::unique_ptr<engine::Timer> timer_;
  uint64_t results_ = 0;  // where the timer's outputs go
};

Status Send(const Json& json) {
  return os::WriteFrame(os::kChildFd, DumpJson(json),
                        std::chrono::steady_clock::now() + kWriteDeadline);
}

Result<std::unique_ptr<Device>> OpenGpu(int ordinal, Json* hello) {
  TRY_ASSIGN(auto driver, OpenDriver());
  TRY_ASSIGN(auto device, Device::Open(std::move(driver), ordinal));
  TRY_ASSIGN(const device::Description description, DescriptionOf(*device));
  *hello = {{"device", device->name()},
            {"description", description.name},
            {"uuid", device->Uuid()},
            {"sm_count", description.sm_count}};
  return device;
}

}  // namespace

int WorkerMain(int argc, char** argv) {
  return RunWorker(argc > 2 ? ParseNumber<int>(argv[2]).value_or(0) : 0, nullptr);
}

void ReportNoWorker(const Error& error) { (void)Send({{"error", ErrorToJson(error)}}); }

int RunWorker(int ordinal, Operators* operators) {
  Json hello;
  auto device = OpenGpu(ordinal, &hello);
  if (!device) {
    ReportNoWorker(device.error());
    return 1;
  }
  if (operators != nullptr) {
    operators->Open(**device);
    (*device)->set_operators(operators);
  }
  if (!Send(hello)) return 1;
  Worker worker(std::move(*device), SharedMemory(kMemoryFd));
  for (;;) {
    os::FrameEnd end{};
    const auto frame =
        os::ReadFrame(os::kChildFd, std::chrono::steady_clock::now() + kNoDeadline, &end);
    if (!frame || !*frame) break;
    auto request = ParseJson(**frame, "request");
    const Result<Json> answer =
        request ? worker.Answer(*request) : Result<Json>(tl::unexpected<Error>(request.error()));
    const Json json = answer ? *answer : Json{{"error", ErrorToJson(answer.error())}};
    if (!Send(json)) break;
  }
  // Do not wait for kernels, which may never end. The driver cleans up after the process.
  _exit(0);
}

}  // namespace cupel::gpu
