// What the use cases are asked to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace cupel::app {

constexpr int kFewestRounds = 10, kMostRounds = 100'000;  // of --rounds

/// Options that most use cases share.
struct Common {
  std::string device = "auto";   // auto, emu, gpu[:N], gpu:all
  std::string model = "h100";    // GPU that the emulator models
  std::string engines = "both";  // on a GPU, who judges: emu, gpu, both
  std::string emulator_model;    // that judges beside a GPU; empty: the GPU's
  std::optional<uint64_t> seed;
  std::string python;     // the Python that has PyTorch
  int threads = 0;        // of the emulator or, on a GPU, of PyTorch; 0: one for each core
  int torch_threads = 0;  // of PyTorch beside the emulator; 0: one for each core
  /// A stop request ends the use case with kCancelled. Its children are killed, and its temporary
  /// folders removed.
  std::stop_token stop;
};

/// How a candidate is compiled.
struct Compile {
  std::string arch = "auto";  // build::Options::arch
  std::vector<std::string> flags;
  std::vector<std::filesystem::path> include_roots;
  std::vector<std::filesystem::path> sources;  // files of the candidate, in addition to the kernel
  int seconds = 300;                           // build::Options::deadline
  bool allow_weak_sandbox = false;  // run untrusted code even if the sandbox is incomplete
};

/// The selected task, direction and settings.
struct Target {
  std::string task;
  bool backward = false;
  std::string settings = "all";  // single, multi, heldout, all
  int trials = 5;
  bool full_size = false;  // do not use the task's smaller sizes for the emulator
  /// PyTorch's operators that host code may call, as task::ParseAllowedOperators takes them;
  /// "auto": those that the task allows.
  std::string operators = "auto";
};

/// The language models that a use case asks (docs/models.md).
struct ModelOptions {
  std::vector<std::string> specs;  // "provider:name@option=value"
  std::optional<double> budget_usd;
  std::optional<int64_t> budget_tokens;
  std::filesystem::path transcript;  // file for questions and answers; empty: none
};

struct BuildOptions {
  Common common;
  Compile compile;
  std::string task;  // of a Python program; else it may be empty
  std::filesystem::path kernel;
};

struct ExtractOptions {
  Common common;
  Compile compile;
  std::string task;
  std::filesystem::path program;  // Python
  std::filesystem::path output;   // folder to create; empty: none
};

struct CheckOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  bool fresh = false;
  bool shadow = true;                 // also run with shadow values
  bool exact = true;                  // also run on small integers, compared bit for bit
  int schedules = -1;                 // number of other orders; -1: some, if the order may matter
  bool explore = true;                // with all settings, also at other sizes
  bool prove = true;                  // also as a function of real numbers, where that is cheap
  bool strict_layouts = false;        // other layouts of tensors must work, too
  std::string distributions = "all";  // inputs in addition to the task's own: all, none, or names
};

struct VerifyOptions {
  Common common;
  Compile compile;  // only allow_weak_sandbox is used; the rest comes from the record
  std::vector<std::filesystem::path> records;  // files that check --json wrote
  std::filesystem::path kernel;                // empty: the path in the record
  std::string task;                            // empty: the task in the record
};

struct ProfileOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  std::filesystem::path keep;  // folder for the call and Nsight Compute's report; empty: none
};

struct ProveOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
};

struct BenchOptions {
  Common common;
  Compile compile;
  Target target;
  std::vector<std::filesystem::path> kernels;
  std::string baselines = "eager,compile,named";
  std::vector<std::string> baseline_files;  // FILE.py:FUNCTION
  bool energy = false;
  int sets = 3;
  int rounds = 400;  // at most
};

struct StreamOptions {
  Common common;
  Compile compile;
  std::filesystem::path list;    // a line of JSON for each candidate
  std::filesystem::path output;  // a line of JSON for each result; empty: none
  std::string settings = "all";
  int trials = 5;
  // As in CheckOptions:
  bool shadow = true, exact = true, explore = true;
  std::string distributions = "all";
  std::string timed = "single";  // settings to time, among those judged: single, all
};

struct ExportOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  std::filesystem::path backward_kernel;  // empty: no gradients
  std::filesystem::path output;           // folder to create
  std::string name;                       // of the package; empty: the task's
  std::filesystem::path record;           // for the README; empty: not measured
  bool force = false;                     // export rejected kernels too
};

struct ConfirmOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;
  int repeats = 1000;        // calls timed one by one with CUDA events
  bool references = true;    // time PyTorch too
  bool unsandboxed = false;  // run without a sandbox if CUDA does not start in it
};

/// How `cupel optimize` searches with language models. Without models, the tuner searches.
struct SearchOptions {
  ModelOptions models;                 // propose kernels
  std::vector<std::string> reviewers;  // specs; none: the first model reviews
  int generations = 10, proposals = 8, evaluations = 4, examples = 3, islands = 1;
  std::string sampling = "parallel";  // or "sequential"
  std::string review = "auto";        // "on", "off"
  std::vector<std::string> without;   // parts of the search that are left out
  bool lint = false;                  // clang-tidy's remarks on accepted kernels
  std::filesystem::path calibration;  // of the reviewers; empty: not calibrated
  std::vector<std::string> lessons;   // folders of other runs whose proven ideas prompts show
};

struct OptimizeOptions {
  Common common;
  Compile compile;
  Target target;
  std::filesystem::path kernel;    // start; empty: the task's baseline
  bool translate = false;          // start from a kernel that models write
  std::filesystem::path run;       // folder; empty: a new one below cupel-runs/
  std::string resume;              // run folder to continue
  std::string replay;              // run folder whose recorded answers are used again
  std::string objective = "time";  // energy, mix: on a GPU
  std::string form;                // "cuda", "python"; empty: that of the start, or cuda
  double stop_at = 0;              // share of the floor's speed that is enough; 0: go on
  int candidates = 32;             // of the tuner
  int batch = 8;
  SearchOptions search;
};

struct TranslateOptions {
  Common common;
  Compile compile;
  Target target;
  ModelOptions models;
  std::string form = "cuda";     // of the answer: "cuda", "python"
  std::optional<int> attempts;   // most answers; not set: 10
  std::filesystem::path output;  // empty: best.cu or best.py in the run's folder
  std::filesystem::path run;     // folder; empty: a new one below cupel-runs/
  std::string resume;            // run folder to continue
};

struct ReviewOptions {
  Common common;
  Compile compile;
  Target target;
  ModelOptions models;
  std::filesystem::path kernel;
  std::filesystem::path calibration;  // file that calibrate wrote; empty: not calibrated
  bool reflect = true;
  bool show_findings = false;  // judge first, and show the findings to the reviewers
};

struct CalibrateOptions {
  Common common;
  ModelOptions models;
  std::filesystem::path labels;
  std::filesystem::path instructions;  // folder of variants; empty: only the built-in ones
  std::filesystem::path output;        // empty: none
  bool reflect = true;
};

struct ControlsOptions {
  Common common;
  std::string task;
  bool backward = false;
  std::string settings = "all";
  bool full_size = false;
};

struct FilterOptions {
  Common common;
  std::string task;           // empty with `all`
  std::filesystem::path all;  // folder of tasks; empty: one task
  bool backward = false;      // only this direction
  std::string settings = "single";
  bool full_size = false;
  int seconds = 120;  // for each setting
};

struct ImportOptions {
  Common common;
  std::vector<std::filesystem::path> paths;  // Python files, and folders of them
  std::filesystem::path output;              // folder of the task folders; empty: current folder
  std::string name;                          // of the task; empty: the file's
  std::string module, inputs, init;          // empty: Model, get_inputs, get_init_inputs
  bool evaluate = false;                     // in eval mode
  bool force = false;                        // overwrite existing folders
  std::filesystem::path report;              // also run the imported tasks, and write this report
  int seconds = 60;                          // for each problem and stage
  uint64_t memory = 4ull << 30;              // bytes for each
  int jobs = 0;                              // problems at a time; 0: one for each core
};

struct SuiteRunOptions {
  Common common;
  Compile compile;
  std::filesystem::path input;    // folder of tasks, a task, or a list of kernels
  std::filesystem::path kernels;  // folder; empty: the tasks' own
  std::string direction = "both";
  std::string settings = "all";
  int trials = 5;
  bool full_size = false;
  bool explore = true;               // with all settings, also at other sizes
  bool baselines = true;             // when timing, time PyTorch too
  bool energy = false;               // when timing, measure the energy of a call, too
  int rounds = 400;                  // when timing, most replays of each
  std::vector<std::string> workers;  // commands; empty: local workers of this program
  int jobs = 0;                      // workers of each command; 0: chosen for the machine
  std::string cases = "auto";        // who computes truth: worker, coordinator, auto
  std::filesystem::path output;      // folder of a new run
  std::filesystem::path resume;      // folder of a run to continue
};

struct SuiteReportOptions {
  std::filesystem::path run;
  std::filesystem::path records;  // folder for verdicts as files; empty: none
};

struct SuiteMergeOptions {
  std::vector<std::filesystem::path> runs;  // folders of runs, or results.json of them
  std::filesystem::path output;             // folder
};

struct SuiteCompareOptions {
  std::filesystem::path a, b;  // folders of runs, or results.json of them
};

struct DoctorOptions {
  Common common;  // only python and stop are used
};

struct SelftestOptions {
  Common common;
  std::string filter;  // regular expression over names; empty: all
  int jobs = 0;        // kernels at a time; 0: one for each core
};

struct WorkerOptions {
  Common common;               // only python and stop are used; the coordinator sends the rest
  Compile compile;             // only allow_weak_sandbox is used
  std::string cases = "auto";  // worker, coordinator; auto: the coordinator decides
};

}  // namespace cupel::app
