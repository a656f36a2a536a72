// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gpu/program.h"
#include "gpu/protocol.h"
#include "gpu/worker.h"
#include "os/frames.h"
#include "os/process.h"
#include "plan/codec.h"

namespace cupel::gpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Kernels are given 20 s (ReplayOptions); a worker that says nothing for longer hangs.
constexpr std::chrono::seconds kMostOfAPlan{20};

std::map<std::string, std::string> Environment() {
  std::map<std::string, std::string> environment = os::CurrentEnvironment();
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // as nvidia-smi counts
  return environment;
}

/// The process at the other end. Started on demand.
class WorkerProcess {
 public:
  explicit WorkerProcess(EngineOptions options) : options_(std::move(options)) {}

  /// Starts a worker when there is none; `hello` is what it begins with.
  Status Ensure() {
    if (process_) return {};
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return Fail(ErrorCode::kIo, fmt::format("cannot make a socket: {}", std::strerror(errno)));
    }
    channel_ = os::Fd(ends[0]);
    const os::Fd theirs(ends[1]);
    TRY_ASSIGN(SharedMemory memory, SharedMemory::Create());
    memory_.emplace(std::move(memory));
    os::SpawnOptions spawn;
    spawn.argv = {options_.program.string(), kWorkerCommand, std::to_string(options_.ordinal)};
    spawn.env = Environment();
    spawn.extra_fds = {theirs.get(), memory_->fd()};
    TRY_ASSIGN(auto process, os::Process::Spawn(spawn));
    process_.emplace(std::move(process));
    ++generation_;
    auto hello = Read(Clock::now() + options_.patience);
    if (!hello) End();
    TRY(hello);
    hello_ = std::move(*hello);
    return {};
  }

  /// One answer. What the worker says is wrong is its Error; kInternal with `gone` set when it died
  /// or hung, after which there is none.
  Result<Json> Ask(const Json& request, bool* gone) {
    *gone = false;
    TRY(Ensure());
    const auto deadline = Clock::now() + kMostOfAPlan + options_.patience;
    if (auto sent = os::WriteFrame(channel_.get(), DumpJson(request), deadline); !sent) {
      *gone = true;
      End();
      return tl::unexpected<Error>(sent.error());
    }
    auto answer = Read(deadline);
    if (!answer && !is_word_) {
      *gone = answer.error().code != ErrorCode::kCancelled;
      End();
    }
    return answer;
  }

  /// What is still on the GPU ends with the process.
  void End() {
    process_.reset();
    channel_.Close();
  }

  SharedMemory& memory() { return *memory_; }
  const Json& hello() const { return hello_; }
  int64_t generation() const { return generation_; }

 private:
  Result<Json> Read(Clock::time_point deadline) {
    is_word_ = false;
    os::FrameEnd end{};
    TRY_ASSIGN(const std::optional<std::string> frame,
               os::ReadFrame(channel_.get(), deadline, &end));
    if (!frame) {
      return Fail(ErrorCode::kInternal, end == os::FrameEnd::kTimeout
                                            ? "the GPU worker does not answer"
                                            : "the GPU worker ended unexpectedly");
    }
    TRY_ASSIGN(Json json, ParseJson(*frame, "the GPU worker's answer"));
    if (json.is_object() && json.contains("error")) {
      is_word_ = true;
      return tl::unexpected<Error>(ErrorFromJson(json["error"]));
    }
    return json;
  }

  EngineOptions options_;
  std::optional<os::Process> process_;
  os::Fd channel_;
  std::optional<SharedMemory> memory_;
  Json hello_;
  int64_t generation_ = 0;
  bool is_word_ = false;  // the last error was said by the worker, which lives
};

class RemoteProgram : public engine::Program {
 public:
  RemoteProgram(std::shared_ptr<WorkerProcess> worker, build::Image image, int64_t id)
      : worker_(std::move(worker)), image_(std::move(image)), id_(id) {}
  ~RemoteProgram() override {
    bool gone = false;
    if (loaded_ == worker_->generation()) (void)worker_->Ask({{"forget", id_}}, &gone);
  }

  Status Load() {
    TRY(worker_->Ensure());
    if (loaded_ == worker_->generation()) return {};
    bool gone = false;
    const Json request{{"load", id_},
                       {"ptx", image_.cubin.empty() ? image_.ptx : std::string()},
                       {"cubin", image_.cubin.string()}};
    TRY(worker_->Ask(request, &gone));
    loaded_ = worker_->generation();
    return {};
  }

  Result<engine::Run> Execute(const plan::Plan& plan,
                              std::span<const std::span<const std::byte>> arguments,
                              const engine::RunOptions& options) override {
    TRY(Load());
    Json request{{"execute", id_}, {"plan", plan::ToJson(plan)}, {"poison", options.poison}};
    TRY(Write(arguments, &request));
    bool gone = false;
    auto answer = worker_->Ask(request, &gone);
    if (!answer && gone) return Died(answer.error());
    TRY(answer);
    TRY_ASSIGN(const Json* json, JsonObject(*answer, "run", "the GPU worker's answer"));
    TRY_ASSIGN(engine::Run run, RunFromJson(*json, worker_->memory()));
    if (std::any_of(run.findings.begin(), run.findings.end(), &EndsContext)) worker_->End();
    return run;
  }

 private:
  Status Write(std::span<const std::span<const std::byte>> arguments, Json* request) {
    Json places = Json::array();
    uint64_t end = 0;
    for (const auto& argument : arguments) {
      end = AlignedForTensor(end);
      places.push_back({end, argument.size()});
      end += argument.size();
    }
    TRY_ASSIGN(const std::span<std::byte> all, worker_->memory().Map(end));
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].empty()) continue;
      std::memcpy(all.data() + places[i][0].get<uint64_t>(), arguments[i].data(),
                  arguments[i].size());
    }
    (*request)["arguments"] = std::move(places);
    (*request)["results"] = end;
    return {};
  }

  /// The worker runs only our own host code: what ends it otherwise came from the kernel.
  static engine::Run Died(const Error& error) {
    engine::Run run;
    engine::Finding finding;
    finding.code = "gpu_fault";
    finding.message = fmt::format(
        "The GPU's process did not survive the plan ({}); it was replaced.", error.message);
    run.findings.push_back(std::move(finding));
    return run;
  }

  std::shared_ptr<WorkerProcess> worker_;
  build::Image image_;
  int64_t id_;
  int64_t loaded_ = 0;  // generation of the worker that knows the image
};

class GpuEngine : public engine::Engine {
 public:
  GpuEngine(std::shared_ptr<WorkerProcess> worker, device::Description device)
      : worker_(std::move(worker)), device_(std::move(device)) {}
  std::string Name() const override { return "gpu"; }
  const device::Description& Device() const override { return device_; }
  Result<std::unique_ptr<engine::Program>> Load(const build::Image& image) override {
    auto program = std::make_unique<RemoteProgram>(worker_, image, ++programs_);
    TRY(program->Load());
    return program;
  }

 private:
  std::shared_ptr<WorkerProcess> worker_;
  device::Description device_;
  int64_t programs_ = 0;
};

}  // namespace

Result<std::unique_ptr<engine::Engine>> MakeGpuEngine(EngineOptions options) {
  auto worker = std::make_shared<WorkerProcess>(std::move(options));
  TRY(worker->Ensure());
  TRY_ASSIGN(const std::string name, JsonString(worker->hello(), "description", "the GPU worker"));
  TRY_ASSIGN(const std::string full_name, JsonString(worker->hello(), "device", "the GPU worker"));
  TRY_ASSIGN(const int64_t sms, JsonInt(worker->hello(), "sm_count", "the GPU worker"));
  TRY_ASSIGN(device::Description device, device::Find(name));
  device.full_name = full_name;
  device.sm_count = static_cast<int>(sms);
  return std::unique_ptr<engine::Engine>(
      std::make_unique<GpuEngine>(std::move(worker), std::move(device)));
}

}  // namespace cupel::gpu
