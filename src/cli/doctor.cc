// `cupel doctor`: what this machine offers, and what to do about what is missing.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "app/session.h"
#include "base/text.h"
#include "build/build.h"
#include "cli/commands.h"
#include "cli/install_hint.h"
#include "cli/json_file.h"
#include "gpu/engine.h"
#include "gpu/ncu.h"
#include "oracle/python.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sandbox.h"

namespace cupel::cli {
namespace {

struct Check {
  std::string name;
  bool ok = false;
  bool needed = true;  // cupel does not work without it
  std::string detail, remedy;
};

Check Failed(std::string name, const Error& error) {
  return {std::move(name), false, true, error.message, error.remedy};
}

Check CheckToolkit(const std::string& os_release) {
  const auto toolkit = build::FindToolkit();
  if (!toolkit) {
    return {"CUDA toolkit", false, true, toolkit.error().message,
            InstallHint(Need::kToolkit, os_release)};
  }
  return {"CUDA toolkit", true, true,
          fmt::format("nvcc {} at {}", toolkit->version, toolkit->nvcc.string()), ""};
}

/// The compiler for host code that nvcc starts: $NVCC_CCBIN, or g++ on PATH.
Check CheckCompiler(const std::string& os_release) {
  const char* named = std::getenv("NVCC_CCBIN");
  os::SpawnOptions spawn;
  spawn.argv = {"/usr/bin/env", named != nullptr && *named != '\0' ? named : "g++",
                "-dumpfullversion"};
  spawn.env = os::CurrentEnvironment();
  const auto run = os::Run(std::move(spawn), std::chrono::seconds(20));
  if (run && run->status.exited && run->status.code == 0) {
    return {"C++ compiler", true, true, fmt::format("g++ {}", Trim(run->out)), ""};
  }
  return {"C++ compiler", false, true, "g++ was not found, which nvcc needs",
          InstallHint(Need::kCompiler, os_release)};
}

Check CheckFolder(const char* name, const Result<std::filesystem::path>& folder) {
  if (!folder) return Failed(name, folder.error());
  return {name, true, true, folder->string(), ""};
}

Check CheckSandbox() {
  const os::SandboxReport report = os::ProbeSandbox();
  Check check{"sandbox", report.missing.empty(), false, "", ""};
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

Check CheckGpu() {
  const auto engine = gpu::MakeGpuEngine({});
  if (!engine) return {"GPU", false, false, engine.error().message, engine.error().remedy};
  const device::Description& device = (*engine)->Device();
  return {
      "GPU", true, false,
      fmt::format("{}, {} SMs (--device gpu, {})", device.full_name, device.sm_count, device.name),
      ""};
}

Check CheckProfiler() {
  const auto ncu = gpu::FindNcu();
  if (!ncu) return {"Nsight Compute", false, false, ncu.error().message, ncu.error().remedy};
  return {"Nsight Compute", true, false, ncu->string() + " (profile --device gpu)", ""};
}

}  // namespace

Result<int> Run(const DoctorCommand& command) {
  std::vector<Check> checks;
  const std::string os_release = ReadOsRelease();
  checks.push_back(CheckToolkit(os_release));
  checks.push_back(CheckCompiler(os_release));
  const auto python = oracle::FindPython(command.python, {});
  checks.push_back(python
                       ? Check{"PyTorch", true, true,
                               fmt::format("{} of {}", python->torch_version, python->program), ""}
                       : Failed("PyTorch", python.error()));
  checks.push_back(CheckFolder("data", os::DataDir()));
  checks.push_back(CheckFolder("cache", os::CacheDir()));
  checks.push_back(CheckSandbox());
  checks.push_back(
      {"emulator", true, true, fmt::format("{} cores", std::thread::hardware_concurrency()), ""});
  checks.push_back(CheckGpu());
  checks.push_back(CheckProfiler());

  Json json{{"schema", "cupel.doctor/1"}, {"checks", Json::array()}};
  bool broken = false;
  for (const Check& check : checks) {
    broken = broken || (!check.ok && check.needed);
    const char* mark = check.ok ? "ok" : (check.needed ? "MISSING" : "-");
    fmt::print("{:14} {:8} {}\n", check.name, mark, check.detail);
    if (!check.remedy.empty()) fmt::print("{:23} {}\n", "", check.remedy);
    json["checks"].push_back(Json{{"name", check.name},
                                  {"ok", check.ok},
                                  {"needed", check.needed},
                                  {"detail", check.detail},
                                  {"remedy", check.remedy}});
  }
  TRY(WriteJson(command.show.json, json));
  return broken ? 2 : 0;
}

}  // namespace cupel::cli
