// The parent's side: starts `cupel gpu-replay` and reads its answer.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "gpu/copy_kernel.h"
#include "gpu/one_shot.h"
#include "os/process.h"

namespace cupel::gpu {
namespace {

std::string FirstLine(const std::string& text) {
  return text.substr(0, std::min(text.find('\n'), kMostText));
}

/// Kernels of one call: [[name, nanoseconds], …].
Result<std::vector<std::pair<std::string, double>>> ReadCall(const Json& call) {
  std::vector<std::pair<std::string, double>> kernels;
  for (const Json& kernel : call) {
    if (!kernel.is_array() || kernel.size() != 2 || !kernel[0].is_string() ||
        !kernel[1].is_number()) {
      return Fail(ErrorCode::kInternal, "the replay's answer is malformed");
    }
    if (kernel[0].get<std::string>() == kCopyKernel) continue;
    kernels.emplace_back(kernel[0].get<std::string>(), kernel[1].get<double>() / 1000);
  }
  return kernels;
}

Result<std::vector<LaunchTimes>> ReadCalls(const Json& calls) {
  std::vector<LaunchTimes> launches;
  for (const Json& call : calls) {
    TRY_ASSIGN(const auto kernels, ReadCall(call));
    if (launches.empty()) {
      for (const auto& [name, us] : kernels) launches.push_back({name, {us}});
      continue;
    }
    bool same = kernels.size() == launches.size();
    for (size_t i = 0; same && i < kernels.size(); ++i) {
      same = kernels[i].first == launches[i].kernel;
    }
    if (!same) return Fail(ErrorCode::kInternal, "CUPTI lost some of the kernels");
    for (size_t i = 0; i < kernels.size(); ++i) launches[i].us.push_back(kernels[i].second);
  }
  return launches;
}

}  // namespace

Result<std::vector<std::string>> OneShotArgv(const std::filesystem::path& folder,
                                             const OneShotOptions& options) {
  std::error_code error;
  const auto program = std::filesystem::canonical(options.program, error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot find {}: {}", options.program.string(), error.message()));
  }
  return std::vector<std::string>{program.string(), kOneShotCommand, folder.string(), "--device",
                                  std::to_string(options.ordinal)};
}

Result<TimedCalls> TimeOneShot(const std::filesystem::path& folder, int repeats,
                               const OneShotOptions& options) {
  os::SpawnOptions spawn;
  TRY_ASSIGN(spawn.argv, OneShotArgv(folder, options));
  spawn.argv.insert(spawn.argv.end(), {"--cupti", std::to_string(repeats)});
  spawn.env = os::CurrentEnvironment();
  spawn.env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // number GPUs like nvidia-smi
  spawn.stop = options.stop;
  TRY_ASSIGN(auto reserved, Reserve(options));
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), options.deadline, kMostOutput));
  reserved.reset();
  if (!run.status.exited || run.status.code > 1 || run.out.empty() || run.out_truncated) {
    return Fail(ErrorCode::kEnvironment, run.err.empty()
                                             ? "the replay ended with " + run.status.Describe()
                                             : FirstLine(run.err));
  }
  TRY_ASSIGN(const Json json, ParseJson(run.out, "the replay's answer"));
  TRY_ASSIGN(const bool completed, JsonBool(json, "completed", "the replay's answer"));
  if (!completed) {
    return Fail(ErrorCode::kEnvironment, "the plan did not complete: " + FirstLine(run.out));
  }
  TimedCalls timed;
  TRY_ASSIGN(timed.clock, JsonString(json, "clock", "the replay's answer"));
  TRY_ASSIGN(const Json* calls, JsonArray(json, "calls", "the replay's answer"));
  TRY_ASSIGN(timed.launches, ReadCalls(*calls));
  return timed;
}

}  // namespace cupel::gpu
