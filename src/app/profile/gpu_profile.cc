// Tested by gpu_profile_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "app/profile/gpu_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/demangle.h"
#include "base/json.h"
#include "emu/exec/emulator.h"
#include "gpu/ncu.h"
#include "gpu/one_shot.h"
#include "os/temp_dir.h"
#include "stats/robust.h"

namespace cupel::app {
namespace {

constexpr int kRepeats = 20;               // timed by CUPTI
constexpr uint64_t kEmulatedBlocks = 256;  // of each grid: a sample is enough for the counts
constexpr std::chrono::seconds kMostOfEmulation{60};

std::vector<const plan::Launch*> LaunchesOf(const plan::Plan& plan) {
  std::vector<const plan::Launch*> launches;
  for (const plan::Node& node : plan.nodes) {
    if (const auto* launch = std::get_if<plan::Launch>(&node.work)) launches.push_back(launch);
  }
  return launches;
}

void SetLaunch(const std::vector<const plan::Launch*>& launches, size_t index, GpuLaunch* one) {
  one->launch = static_cast<int>(index);
  one->image = launches[index]->image;
  one->facts.kernel = launches[index]->kernel;
  one->facts.grid = launches[index]->grid;
  one->facts.block = launches[index]->block;
}

/// Assigns the profiled launches to the plan's. Profilers keep the order, but may skip launches.
void Join(const plan::Plan& plan, const build::Images& images, std::vector<GpuLaunch>* profiled) {
  const std::vector<const plan::Launch*> launches = LaunchesOf(plan);
  size_t next = 0;
  for (GpuLaunch& one : *profiled) {
    const std::string& name = one.facts.kernel;
    const auto found = std::find_if(
        launches.begin() + static_cast<long>(next), launches.end(), [&](const auto* launch) {
          return launch->kernel == name || Demangle(launch->kernel) == name;
        });
    if (found == launches.end()) continue;
    next = static_cast<size_t>(found - launches.begin()) + 1;
    SetLaunch(launches, next - 1, &one);
  }
  // If no name is known, this profiler version spells names differently. Then use the order.
  if (next == 0 && profiled->size() == launches.size()) {
    for (size_t i = 0; i < launches.size(); ++i) SetLaunch(launches, i, &(*profiled)[i]);
  }
  for (GpuLaunch& one : *profiled) {
    for (const auto& resources : images[static_cast<size_t>(one.image)]->resources) {
      if (resources.kernel != one.facts.kernel) continue;
      one.ptxas = resources;
      one.has_ptxas = true;
    }
  }
}

std::string ErrorText(const Error& error) {
  return error.remedy.empty() ? error.message : error.message + "; " + error.remedy;
}

Status WithNcu(const std::filesystem::path& folder, const gpu::OneShotOptions& options,
               GpuProfile* profile) {
  TRY_ASSIGN(const auto ncu, gpu::FindNcu());
  TRY_ASSIGN(const gpu::NcuReport report, gpu::ProfileWithNcu(ncu, folder, options));
  profile->source = "Nsight Compute";
  if (!report.version.empty()) profile->source += " " + report.version;
  for (const gpu::NcuKernel& kernel : report.kernels) {
    profile->launches.push_back({gpu::FactsOf(kernel), -1, {}, false});
  }
  return {};
}

Status WithCupti(const std::filesystem::path& folder, const gpu::OneShotOptions& options,
                 GpuProfile* profile) {
  TRY_ASSIGN(const gpu::TimedCalls timed, gpu::TimeOneShot(folder, kRepeats, options));
  profile->source = timed.clock;
  for (const gpu::LaunchTimes& times : timed.launches) {
    GpuLaunch launch;
    launch.facts.kernel = times.kernel;
    launch.facts.duration_us = stats::Median(times.us);
    profile->launches.push_back(std::move(launch));
  }
  return {};
}

/// Adds the launches without measurements.
void WithoutProfiler(const plan::Plan& plan, GpuProfile* profile) {
  for (const plan::Launch* launch : LaunchesOf(plan)) {
    GpuLaunch one;
    one.facts.kernel = launch->kernel;
    profile->launches.push_back(std::move(one));
  }
}

/// The folder for the call and the report: the user's, or a temporary one that `temporary` owns.
Result<std::filesystem::path> FolderOf(const GpuCall& call, std::optional<os::TempDir>* temporary) {
  if (call.keep.empty()) {
    TRY_ASSIGN(*temporary, os::TempDir::Create());
    return (*temporary)->path();
  }
  std::error_code error;
  std::filesystem::create_directories(call.keep, error);
  auto folder = std::filesystem::canonical(call.keep, error);
  if (!error) return folder;
  return Fail(ErrorCode::kIo,
              fmt::format("cannot create {}: {}", call.keep.string(), error.message()));
}

Status Measure(const GpuCall& call, GpuProfile* profile) {
  std::optional<os::TempDir> temporary;
  TRY_ASSIGN(const std::filesystem::path folder, FolderOf(call, &temporary));
  TRY(gpu::WriteOneShot(folder, call.plan, call.images, call.arguments));
  gpu::OneShotOptions options;
  options.ordinal = call.ordinal;
  options.program = call.program;
  options.stop = call.stop;
  Status reserved;
  if (call.reserve) {
    options.reserve = [&]() -> Result<std::shared_ptr<void>> {
      auto held = call.reserve();
      if (!held) reserved = tl::unexpected<Error>(held.error());
      return held;
    };
  }
  auto ncu = WithNcu(folder, options, profile);
  if (ncu) return {};
  TRY(reserved);  // the GPU is busy: waiting again would not help
  if (ncu.error().code == ErrorCode::kCancelled) return ncu;
  profile->missing = ErrorText(ncu.error());
  auto cupti = WithCupti(folder, options, profile);
  if (cupti) return {};
  if (cupti.error().code == ErrorCode::kCancelled) return cupti;
  profile->missing += ". " + ErrorText(cupti.error());
  WithoutProfiler(call.plan, profile);
  return {};
}

Result<records::Counters> Emulate(const GpuCall& call) {
  const auto emulator = emu::MakeEmulator(call.device);
  TRY_ASSIGN(const auto program, emulator->Load(call.images));
  engine::RunOptions options;
  options.max_blocks = kEmulatedBlocks;
  const auto deadline = std::chrono::steady_clock::now() + kMostOfEmulation;
  options.cancelled = [deadline, stop = call.stop] {
    return stop.stop_requested() || std::chrono::steady_clock::now() > deadline;
  };
  auto run = program->Execute(call.plan, call.arguments, options);
  if (!run && run.error().code == ErrorCode::kCancelled && !call.stop.stop_requested()) {
    return Fail(ErrorCode::kTimeout,
                fmt::format("the emulation took more than {} s", kMostOfEmulation.count()));
  }
  TRY(run);
  if (!run->unsupported.empty()) {
    return Fail(ErrorCode::kUnsupported, "the emulator does not support " + run->unsupported);
  }
  if (!run->completed)
    return Fail(ErrorCode::kUnsupported, "the emulation does not reach the end of the plan");
  return std::move(run->counters);
}

}  // namespace

Result<GpuProfile> ProfileOnGpu(const GpuCall& call) {
  GpuProfile profile;
  profile.all_launches = LaunchesOf(call.plan).size();
  const plan::Traffic traffic = plan::LeastTraffic(call.plan);
  profile.must_read_bytes = traffic.read_bytes;
  profile.must_write_bytes = traffic.written_bytes;
  TRY(Measure(call, &profile));
  Join(call.plan, call.images, &profile.launches);
  if (auto counters = Emulate(call)) {
    profile.emulated = std::move(*counters);
  } else {
    if (counters.error().code == ErrorCode::kCancelled) {
      return tl::unexpected<Error>(counters.error());
    }
    profile.not_emulated = counters.error().message;
  }
  return profile;
}

Json ToJson(const GpuProfile& profile) {
  Json launches = Json::array();
  for (const GpuLaunch& one : profile.launches) {
    Json json = gpu::ToJson(one.facts);
    json["name"] = Demangle(one.facts.kernel);
    json["launch"] = one.launch;
    if (one.has_ptxas) {
      json["ptxas"] = {
          {"registers", one.ptxas.registers},     {"static_shared", one.ptxas.static_shared},
          {"local_bytes", one.ptxas.local_bytes}, {"spill_stores", one.ptxas.spill_stores},
          {"spill_loads", one.ptxas.spill_loads}, {"remarks", one.ptxas.remarks}};
    }
    launches.push_back(std::move(json));
  }
  return {{"source", profile.source},
          {"missing", profile.missing},
          {"not_emulated", profile.not_emulated},
          {"must_read_bytes", profile.must_read_bytes},
          {"must_write_bytes", profile.must_write_bytes},
          {"all_launches", profile.all_launches},
          {"launches", std::move(launches)}};
}

}  // namespace cupel::app
