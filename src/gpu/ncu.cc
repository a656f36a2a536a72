// Tested by ncu_report_test.cc, and by ncu_test.cc with a fake ncu.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ncu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stop_token>
#include <utility>

#include "gpu/copy_kernel.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::gpu {
namespace {
namespace fs = std::filesystem;

constexpr std::chrono::seconds kMostOfImport{60};

// The sections from which a profile's page is made. All versions of ncu have them.
constexpr const char* kSections[] = {"SpeedOfLight",
                                     "ComputeWorkloadAnalysis",
                                     "MemoryWorkloadAnalysis",
                                     "MemoryWorkloadAnalysis_Chart",
                                     "MemoryWorkloadAnalysis_Tables",
                                     "LaunchStats",
                                     "Occupancy",
                                     "SchedulerStats",
                                     "WarpStateStats",
                                     "InstructionStats",
                                     "SourceCounters"};
// Metrics that the sections do not contain in every version.
constexpr const char* kMetrics =
    "dram__bytes_read.sum,dram__bytes_write.sum,"
    "dram__throughput.avg.pct_of_peak_sustained_elapsed,"
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,"
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,"
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum,"
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum,"
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,"
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio,"
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio,"
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,"
    "smsp__thread_inst_executed_per_inst_executed.ratio";

struct KnownError {
  const char* pattern;
  const char* message;
  const char* remedy;
};
constexpr KnownError kKnownErrors[] = {
    {"ERR_NVGPUCTRPERM", "the GPU's performance counters are reserved for administrators",
     "run as root, or load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0"},
    {"LibraryNotLoaded", "Nsight Compute cannot load the driver's profiling library",
     "profile outside containers and sandboxes that hide the library"},
    {"nsight-compute-lock", "another user's Nsight Compute holds its lock file",
     "wait for it, or set TMPDIR to a folder of your own"},
    {"not compatible with Nsight Compute",
     "the driver is older than Nsight Compute expects, or the GPU is unknown to it",
     "set CUPEL_NCU to the ncu of the driver's own CUDA version"},
    {"ResourceUnavailable", "another program uses the GPU's performance counters",
     "end it (DCGM, another profiler)"},
    {"resource was unavailable", "another program uses the GPU's performance counters",
     "end it (DCGM, another profiler)"},
    {"No kernels were profiled", "Nsight Compute recorded no kernel", ""},
};

/// Adds `below` in every subfolder of `folder` that starts with `prefix`, newest version first.
void AddNewest(const fs::path& folder, std::string_view prefix, const fs::path& below,
               std::vector<fs::path>* paths) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      found.push_back(entry.path() / below);
    }
  }
  std::sort(found.rbegin(), found.rend());
  paths->insert(paths->end(), found.begin(), found.end());
}

/// "2025.3.1.0" of "NVIDIA (R) Nsight Compute Command Line Profiler … Version 2025.3.1.0 (build …".
std::string VersionIn(const std::string& text) {
  const size_t at = text.find("Version ");
  if (at == std::string::npos) return {};
  const size_t begin = at + 8;
  const size_t end = text.find_first_not_of("0123456789.", begin);
  return text.substr(begin, std::min(end - begin, size_t{32}));
}

Result<os::RunResult> RunNcu(std::vector<std::string> argv, std::chrono::milliseconds deadline,
                             const std::stop_token& stop) {
  os::SpawnOptions spawn;
  spawn.argv = std::move(argv);
  spawn.env = os::CurrentEnvironment();
  spawn.env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // number GPUs like nvidia-smi
  spawn.env["LC_ALL"] = "C";                      // decimal points
  spawn.stop = stop;
  return os::Run(std::move(spawn), deadline, kMostOutput);
}

/// Writes `folder`/report.ncu-rep.
Status Collect(const fs::path& ncu, const fs::path& folder, const OneShotOptions& options,
               bool with_metrics) {
  std::vector<std::string> argv{ncu.string(),
                                "--clock-control",
                                "none",
                                "--target-processes",
                                "application-only",
                                "--launch-count",
                                std::to_string(kMostProfiledLaunches),
                                "--force-overwrite",
                                "--export",
                                (folder / "report").string()};
  for (const char* section : kSections) argv.insert(argv.end(), {"--section", section});
  if (with_metrics) argv.insert(argv.end(), {"--metrics", kMetrics});
  TRY_ASSIGN(const std::vector<std::string> replay, OneShotArgv(folder, options));
  argv.insert(argv.end(), replay.begin(), replay.end());
  TRY_ASSIGN(const auto reserved, Reserve(options));
  TRY_ASSIGN(const os::RunResult run, RunNcu(std::move(argv), options.deadline, options.stop));
  if (run.status.timed_out) {
    return Fail(ErrorCode::kTimeout,
                fmt::format("Nsight Compute did not finish within {} s", options.deadline.count()));
  }
  std::error_code ignored;
  if (fs::is_regular_file(folder / "report.ncu-rep", ignored)) return {};
  Error error = NcuErrorIn(run.out + "\n" + run.err);
  if (error.message.empty()) {
    error.message = "Nsight Compute wrote no report: " + run.status.Describe();
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<std::string> Page(const fs::path& ncu, const fs::path& folder, const char* page,
                         const std::stop_token& stop) {
  TRY_ASSIGN(os::RunResult run,
             RunNcu({ncu.string(), "--import", (folder / "report.ncu-rep").string(), "--csv",
                     "--page", page, "--print-units", "base", "--print-kernel-base", "mangled"},
                    kMostOfImport, stop));
  if (run.status.exited && run.status.code == 0 && !run.out_truncated) return std::move(run.out);
  Error error = NcuErrorIn(run.out.substr(0, 1 << 16) + "\n" + run.err);
  if (error.message.empty()) {
    error.message = "Nsight Compute could not print its report: " + run.status.Describe();
  }
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<fs::path> FindNcu() {
  os::Tool tool{"CUPEL_NCU",
                "ncu",
                os::FoldersOf(os::Variable("PATH")),
                {ErrorCode::kEnvironment, "Nsight Compute (ncu) was not found",
                 "install nsight-compute, or set CUPEL_NCU to the path of ncu"}};
  if (const fs::path home = os::Variable("CUDA_HOME"); !home.empty()) {
    tool.folders.push_back(home / "bin");
  }
  tool.folders.emplace_back("/usr/local/cuda/bin");
  AddNewest("/usr/local", "cuda-", "bin", &tool.folders);
  AddNewest("/opt/nvidia/nsight-compute", "", "", &tool.folders);
  return os::FindTool(tool);
}

Error NcuErrorIn(std::string_view printed) {
  for (const KnownError& error : kKnownErrors) {
    if (printed.find(error.pattern) != std::string_view::npos) {
      return {ErrorCode::kEnvironment, error.message, error.remedy};
    }
  }
  constexpr std::string_view kMark = "==ERROR==";
  const size_t at = printed.find(kMark);
  if (at == std::string_view::npos) return {ErrorCode::kEnvironment, "", ""};
  std::string_view line = printed.substr(at + kMark.size());
  line = line.substr(0, std::min(line.find_first_of("\r\n"), kMostText));
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line[0])) != 0) {
    line.remove_prefix(1);
  }
  return {ErrorCode::kEnvironment, fmt::format("Nsight Compute reported: {}", line), ""};
}

Result<NcuReport> ProfileWithNcu(const fs::path& ncu, const fs::path& folder,
                                 const OneShotOptions& options) {
  NcuReport report;
  TRY_ASSIGN(const os::RunResult version,
             RunNcu({ncu.string(), "--version"}, kMostOfImport, options.stop));
  report.version = VersionIn(version.out);
  // An unknown metric can make the whole run fail; sections cannot. So retry without metrics.
  auto collected = Collect(ncu, folder, options, true);
  if (!collected && collected.error().code == ErrorCode::kEnvironment &&
      collected.error().remedy.empty()) {
    collected = Collect(ncu, folder, options, false);
  }
  TRY(collected);
  TRY_ASSIGN(const std::string raw, Page(ncu, folder, "raw", options.stop));
  TRY_ASSIGN(report.kernels, ParseNcuRaw(raw));
  // Advice is optional.
  if (const auto details = Page(ncu, folder, "details", options.stop)) {
    (void)AddNcuRules(*details, &report.kernels);
  }
  std::erase_if(report.kernels, [](const NcuKernel& kernel) { return kernel.name == kCopyKernel; });
  const auto is_timed = [](const NcuKernel& kernel) {
    return kernel.Get("gpu__time_duration.sum").has_value();
  };
  if (std::none_of(report.kernels.begin(), report.kernels.end(), is_timed)) {
    return Fail(ErrorCode::kEnvironment, "Nsight Compute's report contains no measured kernel");
  }
  return report;
}

}  // namespace cupel::gpu
