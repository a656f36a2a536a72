// SPDX-License-Identifier: Apache-2.0
#include "build/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <stop_token>
#include <utility>

#include "build/steps.h"
#include "os/files.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 1u << 20;

os::Confinement Confine(const Job& job) {
  os::Confinement confinement;
  confinement.syscalls = os::SyscallProfile::kCompiler;
  confinement.readable = {"/bin",
                          "/usr/bin",
                          "/usr/include",
                          "/usr/lib",
                          "/usr/lib64",
                          "/usr/libexec",
                          "/lib",
                          "/lib64",
                          "/etc/alternatives",
                          "/etc/ld.so.cache",
                          job.toolkit->nvcc,
                          job.toolkit->root,
                          job.options->shim};
  for (const fs::path& root : job.options->include_roots) confinement.readable.push_back(root);
  confinement.writable = {job.folder};
  confinement.address_space_bytes = uint64_t{8} << 30;
  confinement.file_bytes = uint64_t{1} << 30;
  confinement.cpu_seconds = static_cast<uint64_t>(job.options->deadline.count()) + 1;
  confinement.processes = 64;
  confinement.allow_weak = job.options->allow_weak_sandbox;
  return confinement;
}

std::vector<std::string> NvccFlags(const Job& job) {
  const std::string stem = fs::path(job.source_name).stem().string();
  std::vector<std::string> flags = {
      "--keep",
      "-shared",
      "--cudart=none",
      "-Xcompiler",
      "-fPIC",
      "-Xcompiler",
      "-Werror=date-time",  // code must not depend on when it was compiled
      "-gencode",
      fmt::format("arch={0},code=[{1},{0}]", job.virtual_arch, job.options->arch),
      "-Xptxas=-v",
      "-DNVTX_DISABLE"};  // CUB would load a profiler's library, which the audit rejects
  flags.insert(flags.end(), job.flags.begin(), job.flags.end());
  for (const fs::path& root : {job.options->shim}) flags.push_back("-I" + root.string());
  for (const fs::path& root : job.options->include_roots) flags.push_back("-I" + root.string());
  // For toolkits without the cuBLAS headers. A toolkit's own headers come first.
  const std::string cublas = (job.options->shim / "cublas").string();
  flags.insert(flags.end(), {"-Xcompiler", "-idirafter", "-Xcompiler", cublas});
  flags.insert(flags.end(), {job.source_name, "-o", stem + ".so"});
  return flags;
}

/// Host code only records what it would launch: optimizing it costs more time than it could save.
/// The last option wins.
void CompileHostQuickly(Steps& steps) {
  for (Command& command : steps.join) {
    if (std::find(command.begin(), command.end(), "-c") != command.end())
      command.emplace_back("-Og");
  }
}

/// Twice what all of CUB and Thrust need. The user's own headers may be larger and may take the
/// whole deadline.
constexpr uint64_t kFrontCpuSeconds = 7;
constexpr uint64_t kFrontFileBytes = uint64_t{256} << 20;
constexpr uint64_t kFrontMemoryBytes = uint64_t{4} << 30;

/// Runs commands in the sandbox, one after the other, until one fails.
class Runner {
 public:
  Runner(const Job& job, Clock::time_point end) : job_(job), end_(end), confinement_(Confine(job)) {
    environment_ = {{"PATH", job.toolkit->nvcc.parent_path().string() + ":/usr/bin:/bin"},
                    {"TMPDIR", job.folder.string()},
                    {"HOME", job.folder.string()},
                    {"LC_ALL", "C"}};
    if (const char* compiler = std::getenv("NVCC_CCBIN"); compiler != nullptr) {
      environment_["NVCC_CCBIN"] = compiler;
    }
  }

  void Set(const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) environment_[name] = value;
  }

  /// `is_front`: a preprocessor or cudafe++, whose work is bounded by the size of the text.
  Result<os::RunResult> Run(const Command& command, bool is_front,
                            const std::stop_token& stop) const {
    os::SpawnOptions options;
    os::Confinement confinement = confinement_;
    if (is_front && job_.options->include_roots.empty()) {
      confinement.cpu_seconds = kFrontCpuSeconds;
      confinement.file_bytes = kFrontFileBytes;
      confinement.address_space_bytes = kFrontMemoryBytes;
    }
    options.argv = command;
    TRY_ASSIGN(options.argv[0], Locate(command[0]));
    options.env = environment_;
    options.directory = job_.folder;
    options.confinement = &confinement;
    options.merge_stderr = true;
    options.stop = stop;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    return os::Run(std::move(options), std::max(left, std::chrono::milliseconds(1)), kMaxOutput);
  }

 private:
  /// execve(2) needs a path. The child sees the same paths.
  Result<std::string> Locate(const std::string& program) const {
    if (program.find('/') != std::string::npos) return program;
    const auto found = os::FindProgram(program, os::FoldersOf(environment_.at("PATH")));
    if (found) return found->string();
    return Fail(ErrorCode::kEnvironment,
                fmt::format("{}, which nvcc needs, was not found", program),
                "install g++ (`cupel doctor` shows how on this machine)");
  }

  const Job& job_;
  Clock::time_point end_;
  os::Confinement confinement_;
  std::map<std::string, std::string> environment_;
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// All tools get the same sandbox. If their reports differ, keeps the weaker one.
void KeepWeaker(const os::SandboxReport& report, os::SandboxReport& kept) {
  if (!kept.seccomp || report.missing.size() > kept.missing.size()) kept = report;
}

/// Returns an Error if something other than cupel killed a tool, most likely the kernel for lack of
/// memory: that says nothing about the candidate. A tool that exceeds its own limits ends with
/// SIGXCPU or SIGXFSZ, or fails to allocate memory.
Status CheckNotKilled(const os::RunResult& result, const std::string& tool) {
  const os::ExitStatus& status = result.status;
  if (status.timed_out || (status.exited && status.code == 0)) return {};
  const bool itself = !status.exited && (status.signal == SIGKILL || status.signal == SIGTERM);
  const bool child = Contains(result.out, ": fatal error: Killed signal terminated program") ||
                     Contains(result.out, ": fatal error: Terminated signal terminated program");
  if (!itself && !child) return {};
  return Fail(ErrorCode::kEnvironment,
              fmt::format("{} was killed during the compilation, not by cupel: the machine may be "
                          "out of memory",
                          tool),
              "try again with fewer --jobs, or with more memory");
}

/// Adds the result of one command. False if the build must stop.
bool Take(const os::RunResult& result, const std::string& tool, Compiled& compiled) {
  if (result.sandbox != nullptr) KeepWeaker(*result.sandbox, compiled.sandbox);
  compiled.output += result.out;
  if (!compiled.output.empty() && compiled.output.back() != '\n') compiled.output += '\n';
  const os::ExitStatus& status = result.status;
  if (status.exited && status.code == 0) return true;
  if (!compiled.trouble.empty()) return false;  // the other half failed first
  compiled.timed_out = status.timed_out;
  // cudafe++ and cicc abort if they cannot allocate memory.
  const bool killed = !status.exited && (status.signal == SIGXCPU || status.signal == SIGXFSZ ||
                                         status.signal == SIGABRT);
  // gcc and nvcc report as text what happened to their children. A candidate can print the same
  // words, but that only changes the name of its failure.
  compiled.limits =
      !status.timed_out &&
      (killed || Contains(result.out, "out of memory") ||
       Contains(result.out, "virtual memory exhausted") || Contains(result.out, "std::bad_alloc") ||
       Contains(result.out, "CPU time limit exceeded") || Contains(result.out, "File size limit"));
  compiled.trouble = fmt::format("{}: {}", tool, status.Describe());
  return false;
}

/// Where nvcc writes it.
fs::path CubinOf(const Job& job) {
  const std::string stem = fs::path(job.source_name).stem().string();
  return job.folder / (stem + "." + job.options->arch + ".cubin");
}

/// Runs both halves in parallel, then the steps that need both.
Result<Compiled> RunSteps(const Job& job, const Runner& runner, const Steps& steps) {
  Compiled host, device;
  // If one half exceeds its limits (template or macro bombs), the other one would too: stop it.
  std::stop_source give_up;
  const std::stop_callback pass_on(job.options->stop, [&] { give_up.request_stop(); });
  const auto run = [&](const std::vector<Command>& commands, Compiled& into) -> Status {
    for (const Command& command : commands) {
      const std::string tool = fs::path(command[0]).filename().string();
      const bool is_front =
          &commands == &steps.host || (&commands == &steps.device && &command == &commands[0]);
      const auto result = runner.Run(command, is_front, give_up.get_token());
      const bool is_given_up = give_up.stop_requested() && !job.options->stop.stop_requested();
      if (!result && result.error().code == ErrorCode::kCancelled && is_given_up) break;
      TRY(result);
      TRY(CheckNotKilled(*result, tool));
      if (tool == "ptxas") into.ptxas = result->out;
      if (Take(*result, tool, into)) continue;
      if (into.limits || into.timed_out) give_up.request_stop();
      break;
    }
    return {};
  };
  auto device_half = std::async(std::launch::async, [&] { return run(steps.device, device); });
  const Status host_status = run(steps.host, host);
  const Status device_status = device_half.get();
  TRY(host_status);
  TRY(device_status);
  // The host's half first: it reports errors of both, in nvcc's own words.
  Compiled both = host;
  both.output += device.output;
  both.ptxas = device.ptxas;
  KeepWeaker(device.sandbox, both.sandbox);
  if (both.trouble.empty()) {
    both.trouble = device.trouble;
    both.timed_out = device.timed_out;
    both.limits = device.limits;
  }
  if (both.trouble.empty()) TRY(run(steps.join, both));
  both.ok = both.trouble.empty();
  const std::string stem = fs::path(job.source_name).stem().string();
  both.shared_object = job.folder / (stem + ".so");
  both.ptx = job.folder / (stem + ".ptx");
  both.cubin = CubinOf(job);
  return both;
}

/// Writes the name with which both halves mark this file's private symbols as its own.
/// By default cudafe++ generates it and cicc waits for it. A fixed name avoids the wait and is the
/// same in every build.
Status WriteModuleId(const Job& job, Steps& steps) {
  std::string name = job.source_name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  const std::string id = fmt::format("_{}_{}_{}", job.identity, name.size(), name);
  for (Command& command : steps.host) {
    const auto generate = std::find(command.begin(), command.end(), "--gen_module_id_file");
    if (generate != command.end()) command.erase(generate);
  }
  const std::string stem = fs::path(job.source_name).stem().string();
  const fs::path path = job.folder / (stem + ".module_id");
  TRY(os::WriteFileAtomically(path, id));
  std::error_code error;  // independent of the umask: the compiler may run as another user
  fs::permissions(path, static_cast<fs::perms>(0644), error);
  return {};
}

}  // namespace

Result<Compiled> Compile(const Job& job) {
  Runner runner(job, Clock::now() + job.options->deadline);
  Command nvcc = {job.toolkit->nvcc.string()};
  const std::vector<std::string> flags = NvccFlags(job);
  nvcc.insert(nvcc.end(), flags.begin(), flags.end());
  Command dryrun = nvcc;
  dryrun.insert(dryrun.begin() + 1, "--dryrun");
  TRY_ASSIGN(const os::RunResult listing, runner.Run(dryrun, false, job.options->stop));
  auto steps = listing.status.exited && listing.status.code == 0 ? ParseDryrun(listing.out)
                                                                 : std::optional<Steps>();
  if (steps) {
    TRY(WriteModuleId(job, *steps));
    CompileHostQuickly(*steps);
    runner.Set(steps->environment);
    return RunSteps(job, runner, *steps);
  }
  // An nvcc with an unknown listing does all steps itself, in sequence.
  Steps whole;
  whole.host = {nvcc};
  TRY_ASSIGN(Compiled compiled, RunSteps(job, runner, whole));
  compiled.ptxas = compiled.output;
  return compiled;
}

Result<Compiled> Assemble(const Job& job) {
  const Runner runner(job, Clock::now() + job.options->deadline);
  const fs::path output = CubinOf(job);
  Steps steps;
  Command& ptxas = steps.join.emplace_back();
  ptxas = {(job.toolkit->nvcc.parent_path() / "ptxas").string(),
           "-v",
           "--gpu-name=" + job.options->arch,
           job.source_name,
           "-o",
           output.string()};
  ptxas.insert(ptxas.end(), job.flags.begin(), job.flags.end());
  return RunSteps(job, runner, steps);
}

}  // namespace cupel::build
