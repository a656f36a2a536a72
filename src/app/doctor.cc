// SPDX-License-Identifier: Apache-2.0
#include "app/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stop_token>

#include "app/install_hint.h"
#include "base/lanes.h"
#include "base/text.h"
#include "build/build.h"
#include "gpu/engine.h"
#include "gpu/ncu.h"
#include "oracle/python.h"
#include "os/folders.h"
#include "os/process.h"
#include "os/sandbox.h"

namespace cupel::app {
namespace {

MachineCheck Failed(std::string name, const Error& error) {
  return {std::move(name), false, true, error.message, error.remedy};
}

MachineCheck CheckToolkit(const std::string& os_release, const std::stop_token& stop) {
  const auto toolkit = build::FindToolkit(stop);
  if (!toolkit) {
    return {"CUDA toolkit", false, true, toolkit.error().message,
            InstallHint(Need::kToolkit, os_release)};
  }
  return {"CUDA toolkit", true, true,
          fmt::format("nvcc {} at {}", toolkit->version, toolkit->nvcc.string()), ""};
}

/// The compiler for host code that nvcc starts: $NVCC_CCBIN, or g++ on PATH.
MachineCheck CheckCompiler(const std::string& os_release, const std::stop_token& stop) {
  const char* named = std::getenv("NVCC_CCBIN");
  os::SpawnOptions spawn;
  spawn.argv = {"/usr/bin/env", named != nullptr && *named != '\0' ? named : "g++",
                "-dumpfullversion"};
  spawn.env = os::CurrentEnvironment();
  spawn.stop = stop;
  const auto run = os::Run(std::move(spawn), std::chrono::seconds(20));
  if (run && run->status.exited && run->status.code == 0) {
    return {"C++ compiler", true, true, fmt::format("g++ {}", Trim(run->out)), ""};
  }
  return {"C++ compiler", false, true, "g++ was not found, which nvcc needs",
          InstallHint(Need::kCompiler, os_release)};
}

MachineCheck CheckFolder(const char* name, const Result<std::filesystem::path>& folder) {
  if (!folder) return Failed(name, folder.error());
  return {name, true, true, folder->string(), ""};
}

MachineCheck CheckSandbox() {
  const os::SandboxReport report = os::ProbeSandbox();
  MachineCheck check{"sandbox", report.missing.empty(), false, "", ""};
  check.detail =
      report.missing.empty()
          ? fmt::format("namespaces, seccomp, Landlock (ABI {})", report.landlock_abi)
          : fmt::format("this Linux kernel does not provide: {}", fmt::join(report.missing, ", "));
  check.needed = !report.IsEnough();
  if (!check.ok) {
    check.remedy =
        report.IsEnough()
            ? "the remaining protections are enough for untrusted code; records list what is "
              "missing"
            : "cupel refuses untrusted code here: enable namespaces or Landlock (ABI 3), and "
              "seccomp; or pass --allow-weak-sandbox for kernels that you trust";
  }
  return check;
}

MachineCheck CheckGpu(const std::stop_token& stop) {
  gpu::EngineOptions options;
  options.stop = stop;
  const auto engine = gpu::MakeGpuEngine(options);
  if (!engine) return {"GPU", false, false, engine.error().message, engine.error().remedy};
  const device::Description& device = (*engine)->Device();
  return {
      "GPU", true, false,
      fmt::format("{}, {} SMs (--device gpu, {})", device.full_name, device.sm_count, device.name),
      ""};
}

MachineCheck CheckProfiler() {
  const auto ncu = gpu::FindNcu();
  if (!ncu) return {"Nsight Compute", false, false, ncu.error().message, ncu.error().remedy};
  return {"Nsight Compute", true, false, ncu->string() + " (profile --device gpu)", ""};
}

}  // namespace

std::vector<MachineCheck> CheckMachine(const DoctorOptions& options) {
  std::vector<MachineCheck> checks;
  const std::string os_release = ReadOsRelease();
  const std::stop_token& stop = options.common.stop;
  checks.push_back(CheckToolkit(os_release, stop));
  checks.push_back(CheckCompiler(os_release, stop));
  const auto python = oracle::FindPython(options.common.python, {}, stop);
  checks.push_back(
      python ? MachineCheck{"PyTorch", true, true,
                            fmt::format("{} of {}", python->torch_version, python->program), ""}
             : Failed("PyTorch", python.error()));
  checks.push_back(CheckFolder("data", os::DataDir()));
  checks.push_back(CheckFolder("cache", os::CacheDir()));
  checks.push_back(CheckSandbox());
  checks.push_back({"emulator", true, true, fmt::format("{} cores", Cores()), ""});
  checks.push_back(CheckGpu(stop));
  checks.push_back(CheckProfiler());
  return checks;
}

bool IsBroken(const std::vector<MachineCheck>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const MachineCheck& check) { return !check.ok && check.needed; });
}

Json ToJson(const std::vector<MachineCheck>& checks) {
  Json json{{"schema", "cupel.doctor/1"}, {"checks", Json::array()}};
  for (const MachineCheck& check : checks) {
    json["checks"].push_back(Json{{"name", check.name},
                                  {"ok", check.ok},
                                  {"needed", check.needed},
                                  {"detail", check.detail},
                                  {"remedy", check.remedy}});
  }
  return json;
}

}  // namespace cupel::app
