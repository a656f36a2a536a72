// Reports in Nsight Compute's format with invented numbers, and a fake ncu program that prints
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace cupel::gpu {

inline constexpr const char* kRawPage =
    R"csv("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active","sm__maximum_warps_per_active_cycle_pct","launch__occupancy_limit_registers","launch__occupancy_limit_shared_mem","launch__occupancy_limit_warps","launch__registers_per_thread","dram__bytes_read.sum","dram__bytes_write.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","derived__memory_l1_wavefronts_shared_excessive","memory_l1_wavefronts_shared","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio","device__attribute_display_name"
"","","","","","","","","","","","ns","%","%","%","%","block","block","block","register/thread","byte","byte","sector","","","","inst","inst","inst","inst",""
"0","71","cupel","127.0.0.1","cupel_copy","1","13","(256, 1, 1)","(7, 1, 1)","0","9.0","999","1","1","1","1","1","1","1","9","1","1","1","1","1","1","1","1","1","1","NVIDIA H200"
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","12,345.50","71.25","8.5","40.0","50.0","16","8","8","32","1,048,576","2048","8000","1000","300","400","6.0","3.0","1.0","77","NVIDIA H200"
)csv";

inline constexpr const char* kDetailsPage =
    R"csv("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","Launch Statistics","Registers Per Thread","register/thread","32","","","","",""
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","LaunchStats","","","","LaunchConfiguration","WRN","The grid, with ""4"" blocks,
is small. See @section:Occupancy:Occupancy@ or the @url:guide:https://example.com/a:b@.","",""
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","Tables","","","","AccessPattern","OPT","Half of each sector is unused.","local","12.5"
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","Tables","","","","AccessPattern","OPT","Half of each sector is unused.","local","12.5"
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","Occupancy","","","","TheoreticalOccupancy","OPT","More warps would fit.","global","50.0%"
"1","71","cupel","127.0.0.1","add_one","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","SpeedOfLight","","","","Roofline","INF","This is how it is.","",""
"8","71","cupel","127.0.0.1","other","1","13","(64, 1, 1)","(4, 1, 1)","0","9.0","SpeedOfLight","","","","Nobody","OPT","Of no launch.","",""
)csv";

/// Creates a program in `folder` that behaves like ncu: it writes a report to the path after
/// --export, prints the two pages when it reads a report, and appends its arguments to
/// `folder`/calls. If `error` is given, it prints this instead of writing a report, and fails.
inline std::filesystem::path FakeNcu(const std::filesystem::path& folder,
                                     const std::string& error = {}) {
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  write("raw.csv", std::string("==WARNING== a \"word\", first\n") + kRawPage);
  write("details.csv", kDetailsPage);
  write("error", error);
  write("ncu", R"sh(#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
case "$*" in
  --version) echo "Profiler Version 2025.9.9.1 (build 1)" ;;
  *"--page raw"*) cat "$here/raw.csv" ;;
  *"--page details"*) cat "$here/details.csv" ;;
  *)
    if [ -s "$here/error" ]; then cat "$here/error"; exit 1; fi
    while [ "$1" != --export ]; do shift; done
    echo report > "$2.ncu-rep" ;;
esac
)sh");
  std::filesystem::permissions(folder / "ncu", std::filesystem::perms::owner_all);
  return folder / "ncu";
}

}  // namespace cupel::gpu
