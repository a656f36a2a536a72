// Tested by engine_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/worker_process.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/lanes.h"
#include "gpu/protocol.h"
#include "gpu/worker.h"
#include "os/frames.h"

namespace cupel::gpu {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Kernels may run for 20 s (ReplayOptions). A worker that does not answer for longer hangs.
constexpr std::chrono::seconds kMostOfAPlan{20};

std::map<std::string, std::string> Environment() {
  std::map<std::string, std::string> environment = os::CurrentEnvironment();
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // number GPUs like nvidia-smi
  return environment;
}

/// Copies with several threads, because one core cannot use the full memory bandwidth.
void Copy(std::span<const std::byte> from, std::byte* to) {
  constexpr size_t kWorthThreads = size_t{16} << 20;
  constexpr size_t kMostThreads = 4;
  const size_t threads = std::clamp<size_t>(from.size() / kWorthThreads, 1, kMostThreads);
  const size_t piece = (from.size() + threads - 1) / threads;
  (void)ForEachOnLanes(threads, threads, [&](size_t, size_t i) -> Status {
    const size_t bytes = std::min(piece, from.size() - i * piece);
    if (bytes > 0) std::memcpy(to + i * piece, from.data() + i * piece, bytes);
    return {};
  });
}

}  // namespace

Status WorkerProcess::Begin() {
  if (process_) return {};
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot create a socket: {}", std::strerror(errno)));
  }
  channel_ = os::Fd(ends[0]);
  const os::Fd theirs(ends[1]);
  TRY_ASSIGN(SharedMemory memory, SharedMemory::Create());
  memory_.emplace(std::move(memory));
  os::SpawnOptions spawn;
  spawn.argv = torch_worker_;
  if (torch_worker_.empty()) {
    spawn.argv = {options_.program.string(), kWorkerCommand};
  } else {
    spawn.argv.push_back(purpose_);
  }
  spawn.argv.push_back(std::to_string(options_.ordinal));
  spawn.env = Environment();
  spawn.extra_fds = {theirs.get(), memory_->fd()};
  spawn.stop = options_.stop;
  TRY_ASSIGN(auto process, os::Process::Spawn(spawn));
  process_.emplace(std::move(process));
  ++generation_;
  ready_ = false;
  return {};
}

Status WorkerProcess::NeedTorch() {
  if (!torch_worker_.empty()) return {};
  if (!options_.torch_worker) {
    return Fail(ErrorCode::kUnsupported, "unsupported: operators of PyTorch on this GPU",
                "use --device emu");
  }
  TRY_ASSIGN(torch_worker_, options_.torch_worker());
  End();
  return {};
}

Status WorkerProcess::Ensure() {
  TRY(Begin());
  if (ready_) return {};
  auto hello = Read(SteadyClock::now() + options_.request_timeout);
  if (!hello) End();
  TRY(hello);
  hello_ = std::move(*hello);
  ready_ = true;
  return {};
}

Result<Json> WorkerProcess::Ask(const Json& request, bool* worker_ended) {
  *worker_ended = false;
  TRY(Ensure());
  const std::string frame = DumpJson(request);
  if (frame.size() > os::kMaxFrameBytes) {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format("unsupported: the plan's JSON has {} MiB, more than the limit of {} MiB",
                    frame.size() >> 20, os::kMaxFrameBytes >> 20));
  }
  const auto deadline = SteadyClock::now() + kMostOfAPlan + options_.request_timeout;
  if (auto sent = os::WriteFrame(channel_.get(), frame, deadline, options_.stop); !sent) {
    *worker_ended = sent.error().code != ErrorCode::kCancelled;
    End();
    return tl::unexpected<Error>(sent.error());
  }
  auto answer = Read(deadline);
  if (!answer && !is_worker_error_) {
    *worker_ended = answer.error().code != ErrorCode::kCancelled;
    End();
  }
  return answer;
}

void WorkerProcess::End() {
  process_.reset();
  channel_.Close();
}

Result<Json> WorkerProcess::Read(SteadyClock::time_point deadline) {
  is_worker_error_ = false;
  os::FrameEnd end{};
  TRY_ASSIGN(const std::optional<std::string> frame,
             os::ReadFrame(channel_.get(), deadline, &end, options_.stop));
  if (!frame) {
    return Fail(ErrorCode::kInternal, end == os::FrameEnd::kTimeout
                                          ? "the GPU worker does not answer"
                                          : "the GPU worker ended unexpectedly");
  }
  TRY_ASSIGN(Json json, ParseJson(*frame, "the GPU worker's answer"));
  if (json.is_object() && json.contains("error")) {
    is_worker_error_ = true;
    return tl::unexpected<Error>(ErrorFromJson(json["error"]));
  }
  return json;
}

Result<Json> WorkerProcess::Write(std::span<const std::span<const std::byte>> tensors,
                                  uint64_t* end) {
  Json places = Json::array();
  for (const auto& tensor : tensors) {
    *end = AlignedForTensor(*end);
    places.push_back({*end, tensor.size()});
    *end += tensor.size();
  }
  TRY_ASSIGN(const std::span<std::byte> all, memory_->Map(*end));
  for (size_t i = 0; i < tensors.size(); ++i) {
    Copy(tensors[i], all.data() + places[i][0].get<uint64_t>());
  }
  return places;
}

}  // namespace cupel::gpu
