// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml.h"

#include <fmt/format.h>

#include <utility>

#include "gpu/library.h"

namespace cupel::gpu {
namespace {

constexpr unsigned kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
constexpr int kInsufficientSize = 7;

/// Reasons for reduced clocks (nvmlClocksEventReasons), without idleness.
constexpr std::pair<unsigned long long, const char*> kReasons[] = {
    {0x2, "application clocks setting"},
    {0x4, "power cap"},
    {0x8, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "power brake"},
};

}  // namespace

struct Nvml::Library {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*temperature)(void*, unsigned, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*processes)(void*, unsigned*, void*) = nullptr;

  const char* Resolve(void* library) {
    EntryPoints entry(library);
    entry.Find(init, "nvmlInit_v2");
    entry.Find(shutdown, "nvmlShutdown");
    entry.Find(by_uuid, "nvmlDeviceGetHandleByUUID");
    entry.Find(clock, "nvmlDeviceGetClockInfo");
    entry.Find(temperature, "nvmlDeviceGetTemperature");
    entry.Find(power, "nvmlDeviceGetPowerUsage");
    entry.Find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    entry.Find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    entry.Find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    return entry.missing();
  }
};

void Nvml::Free::operator()(Library* library) const {
  library->shutdown();
  delete library;
}

Result<std::unique_ptr<Nvml>> Nvml::Open(const std::string& uuid) {
  void* opened = OpenLibrary({"libnvidia-ml.so.1"});
  auto library = std::make_unique<Library>();
  const char* missing = opened == nullptr ? "libnvidia-ml.so.1" : library->Resolve(opened);
  if (missing != nullptr) {
    return Fail(ErrorCode::kEnvironment, fmt::format("NVML was not found: no {}", missing));
  }
  if (const int code = library->init(); code != 0) {
    return Fail(ErrorCode::kEnvironment, fmt::format("cannot start NVML (error {})", code));
  }
  std::unique_ptr<Library, Free> started(library.release());
  void* device = nullptr;
  if (const int code = started->by_uuid(uuid.c_str(), &device); code != 0) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("NVML does not find {} (error {})", uuid, code));
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(started), device));
}

records::GpuState Nvml::State() const {
  records::GpuState state;
  unsigned value = 0;
  if (library_->clock(device_, kSmClock, &value) == 0) state.sm_mhz = static_cast<int>(value);
  if (library_->clock(device_, kMemoryClock, &value) == 0) {
    state.memory_mhz = static_cast<int>(value);
  }
  if (library_->temperature(device_, kGpuTemperature, &value) == 0) {
    state.temperature_c = static_cast<int>(value);
  }
  if (library_->power(device_, &value) == 0) state.power_w = value / 1e3;
  unsigned long long reasons = 0;
  if (library_->reasons(device_, &reasons) == 0) {
    for (const auto& [bit, name] : kReasons) {
      if ((reasons & bit) != 0) state.throttled_by.emplace_back(name);
    }
  }
  unsigned count = 0;
  const int code = library_->processes(device_, &count, nullptr);
  if (code == 0 || code == kInsufficientSize) state.processes = static_cast<int>(count);
  return state;
}

Result<double> Nvml::EnergyJoules() const {
  unsigned long long millijoules = 0;
  if (const int code = library_->energy(device_, &millijoules); code != 0) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("unsupported: this GPU does not count its energy (error {})", code));
  }
  return static_cast<double>(millijoules) / 1e3;
}

}  // namespace cupel::gpu
