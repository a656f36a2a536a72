// The command line as data. CLI11, a heavy header, is used in options.cc alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cupel::cli {

/// Options that most commands share.
struct Common {
  std::string device = "auto";  // auto, emu, gpu[:N], gpu:all
  std::string model = "h100";   // GPU that the emulator describes and estimates
  std::string json;             // file to write; empty: none
  std::optional<uint64_t> seed;
  bool quiet = false;
  std::string python;  // the Python that has PyTorch
};

/// How a candidate is compiled.
struct Compile {
  std::string arch = "sm_90";
  std::vector<std::string> flags;
  std::vector<std::filesystem::path> include_roots;
};

/// Which task, direction and settings are meant.
struct Target {
  std::string task;
  bool backward = false;
  std::string settings = "all";  // single, multi, heldout, all
  int trials = 5;
};

struct BuildCommand {
  Common common;
  Compile compile;
  std::filesystem::path kernel;
};

struct CheckCommand {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  std::filesystem::path plan;  // file to write; empty: none
  bool fresh = false;
  bool shadow = true;  // run with shadow values too
  bool exact = true;   // and on small integers, bit for bit
  int schedules = -1;  // other orders; -1: some, where the order may matter
};

struct ProfileCommand {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  std::filesystem::path keep;  // folder for the call and Nsight Compute's report; empty: none
};

struct BenchCommand {
  Common common;
  Compile compile;
  Target target;
  std::vector<std::filesystem::path> kernels;
  std::string baselines = "eager,compile";
  bool energy = false;
  int sets = 3;
  int rounds = 400;  // at most
};

struct StreamCommand {
  Common common;
  Compile compile;
  std::filesystem::path list;    // a line of JSON for each candidate
  std::filesystem::path output;  // a line of JSON for each result; empty: none
  std::string settings = "single";
  int trials = 5;
};

struct ExportCommand {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  std::filesystem::path backward_kernel;  // empty: no gradients
  std::filesystem::path output;           // folder to make
  std::string name;                       // of the package; empty: the task's
  std::filesystem::path record;           // for the README; empty: not measured
  bool force = false;                     // rejected kernels too
};

struct ConfirmCommand {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  int repeats = 1000;        // of CUDA events around a call
  bool references = true;    // time PyTorch too
  bool unsandboxed = false;  // where CUDA does not start in the sandbox
};

struct OptimizeCommand {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;  // start; empty: the task's baseline
  std::filesystem::path run;     // folder; empty: a new one below cupel-runs/
  std::string resume;            // run folder to go on with
  int candidates = 32;
  int batch = 8;
};

struct TaskCommand {
  Common common;
  std::string action;  // list, show
  std::string task;
};

struct ReportCommand {
  Common common;
  std::string run;
};

struct DoctorCommand {
  Common common;
};

using Command = std::variant<BuildCommand, CheckCommand, BenchCommand, StreamCommand,
                             ProfileCommand, OptimizeCommand, ExportCommand, ConfirmCommand,
                             TaskCommand, ReportCommand, DoctorCommand>;

/// Either a command, or an exit status after help or a message was printed.
std::variant<Command, int> ParseCommandLine(int argc, char** argv);

}  // namespace cupel::cli
