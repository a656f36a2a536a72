// SPDX-License-Identifier: Apache-2.0
#include "build/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <map>
#include <numeric>
#include <stop_token>
#include <utility>

#include "base/lanes.h"
#include "base/printable.h"
#include "base/text.h"
#include "build/compile_watch.h"
#include "build/steps.h"
#include "os/files.h"
#include "os/process.h"
#include "os/programs.h"

namespace cupel::build {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 1u << 20;

/// Of cicc and ptxas. A fixed number: ptxas orders its code by it, and a cubin should not depend on
/// the machine that made it.
constexpr int kCompilerThreads = 8;
/// ptxas splits its work only above this size of PTX: that of hundreds of template instances.
constexpr uintmax_t kLargePtx = uintmax_t{2} << 20;
constexpr size_t kMaxMade = size_t{512} << 20;

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
  confinement.cpu_seconds =
      static_cast<uint64_t>(job.options->deadline.count()) * kCompilerThreads + 1;
  confinement.processes = 64;
  confinement.allow_weak = job.options->allow_weak_sandbox;
  return confinement;
}

std::string StemOf(const Unit& unit) { return fs::path(unit.source_name).stem().string(); }

/// A file that nvcc writes for a unit, relative to the job's folder.
std::string MadeFor(const Unit& unit, const std::string& suffix) {
  return (fs::path(unit.keep) / (StemOf(unit) + suffix)).string();
}

bool IsOptimization(const std::string& flag) { return flag.starts_with("-O"); }

/// Of nvcc, for a unit. `kind`: "-shared", "-c", or "--cubin" for the device's half alone.
std::vector<std::string> NvccFlags(const Job& job, const Unit& unit, const std::string& kind) {
  std::vector<std::string> flags = {
      "--keep",
      kind,
      "--cudart=none",
      "-Xcompiler",
      "-fPIC",
      "-Xcompiler",
      "-Werror=date-time",  // code must not depend on when it was compiled
      "-gencode",
      kind == "--cubin"
          ? fmt::format("arch={},code={}", job.virtual_arch, job.options->arch)
          : fmt::format("arch={0},code=[{1},{0}]", job.virtual_arch, job.options->arch),
      "-Xptxas=-v",
      "-DNVTX_DISABLE"};  // CUB would load a profiler's library, which the audit rejects
  if (kind != "--cubin") flags.push_back(fmt::format("--split-compile={}", kCompilerThreads));
  if (!unit.keep.empty()) flags.insert(flags.end(), {"--keep-dir", unit.keep});
  for (const std::string& flag : job.flags) {
    if (unit.is_cuda || !IsOptimization(flag)) flags.push_back(flag);
  }
  for (const fs::path& root : {job.options->shim}) flags.push_back("-I" + root.string());
  for (const std::string& folder : job.includes) flags.push_back("-I" + folder);
  for (const fs::path& root : job.options->include_roots) flags.push_back("-I" + root.string());
  // For toolkits without the cuBLAS headers. A toolkit's own headers come first.
  const std::string cublas = (job.options->shim / "cublas").string();
  flags.insert(flags.end(), {"-Xcompiler", "-idirafter", "-Xcompiler", cublas});
  const std::string output = MadeFor(unit, kind == "-c" ? ".o" : ".so");
  flags.insert(flags.end(), {unit.source_name, "-o", output});
  return flags;
}

Command Nvcc(const Job& job, const Unit& unit, const std::string& kind) {
  Command command = {job.toolkit->nvcc.string()};
  const std::vector<std::string> flags = NvccFlags(job, unit, kind);
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

/// nvcc lets ptxas split its work, too. Keeps that for large PTX only.
Command AvoidNeedlessSplit(const fs::path& folder, Command command) {
  const auto ptx = std::find_if(command.begin(), command.end(),
                                [](const std::string& part) { return part.ends_with(".ptx"); });
  std::error_code error;
  if (ptx != command.end() && fs::file_size(folder / *ptx, error) > kLargePtx && !error) {
    return command;
  }
  std::erase_if(command,
                [](const std::string& part) { return part.starts_with("-split-compile="); });
  return command;
}

/// GCC can since version 12. nvcc tells cudafe++ the version.
bool CanFillVariables(const Steps& steps) {
  constexpr int kGcc12 = 120000;
  constexpr std::string_view kVersion = "--gnu_version=";
  for (const Command& command : steps.host) {
    for (const std::string& word : command) {
      if (word.starts_with(kVersion)) return std::atoi(word.c_str() + kVersion.size()) >= kGcc12;
    }
  }
  return false;
}

/// What the host compiler puts into variables that a program leaves undefined: bytes 0xfe.
constexpr const char* kFillVariables = "-ftrivial-auto-var-init=pattern";

/// What ends the name of an object.
std::string SuffixOf(bool filled, const std::string& suffix) {
  return (filled ? ".filled" : "") + suffix;
}

/// Host code only records what it would launch: optimizing it costs more time than it could save.
/// The last option wins.
constexpr const char* kHostOptimization = "-Og";

/// Three times what Thrust's algorithms in a kernel need on a slow machine. The user's own headers
/// may be larger and may take the whole deadline.
constexpr uint64_t kFrontCpuSeconds = 30;
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
fs::path CubinOf(const Job& job, const Unit& unit) {
  return job.folder / MadeFor(unit, "." + job.options->arch + ".cubin");
}

/// Runs commands in sequence, and adds their results to one Compiled. If one exceeds its limits
/// (template or macro bombs), stops those that share `give_up`: they would exceed them too.
class Sequence {
 public:
  /// `file`: the unit's name, for `watch`.
  Sequence(const Job& job, const Runner& runner, std::stop_source& give_up, CompileWatch& watch,
           std::string file)
      : job_(job), runner_(runner), give_up_(give_up), watch_(watch), file_(std::move(file)) {}

  /// `fronts`: how many of the first commands are bounded by the size of the text.
  Status Run(const std::vector<Command>& commands, size_t fronts, Compiled& into,
             std::string* ptxas = nullptr) const {
    for (size_t i = 0; i < commands.size(); ++i) {
      const std::string tool = fs::path(commands[i][0]).filename().string();
      watch_.Begins(file_, tool);
      const Command command =
          tool == "ptxas" ? AvoidNeedlessSplit(job_.folder, commands[i]) : commands[i];
      const auto result = runner_.Run(command, i < fronts, give_up_.get_token());
      watch_.Ends(file_, tool);
      const bool is_given_up = give_up_.stop_requested() && !job_.options->stop.stop_requested();
      if (!result && result.error().code == ErrorCode::kCancelled && is_given_up) {
        if (into.trouble.empty()) into.trouble = kGivenUp;
        break;
      }
      TRY(result);
      TRY(CheckNotKilled(*result, tool));
      if (tool == "ptxas" && ptxas != nullptr) *ptxas = result->out;
      if (Take(*result, tool, into)) continue;
      if (into.limits || into.timed_out) give_up_.request_stop();
      break;
    }
    return {};
  }

  static constexpr const char* kGivenUp = "another part of the build failed";

 private:
  const Job& job_;
  const Runner& runner_;
  std::stop_source& give_up_;
  CompileWatch& watch_;
  std::string file_;
};

/// Adds what another part of the build said. Keeps the trouble that came first, or is a cause.
void Join(const Compiled& part, Compiled& into) {
  into.output += part.output;
  into.missing_headers.insert(into.missing_headers.end(), part.missing_headers.begin(),
                              part.missing_headers.end());
  KeepWeaker(part.sandbox, into.sandbox);
  if (!part.trouble.empty() && (into.trouble.empty() || into.trouble == Sequence::kGivenUp)) {
    into.trouble = part.trouble;
    into.timed_out = part.timed_out;
    into.limits = part.limits;
  }
}

/// Compiles one unit: both halves in parallel, then the step that needs both. If the host's half
/// fails, it says all that the candidate's author needs to know, and the rest is given up: device
/// code may take minutes.
Result<Compiled> RunSteps(const Sequence& sequence, const Steps& steps, std::string& ptxas,
                          std::stop_source& give_up) {
  Compiled host, device;
  auto device_half =
      std::async(std::launch::async, [&] { return sequence.Run(steps.device, 1, device, &ptxas); });
  const Status host_status = sequence.Run(steps.host, steps.host.size(), host);
  if (!host_status || !host.trouble.empty()) give_up.request_stop();
  const Status device_status = device_half.get();
  TRY(host_status);
  TRY(device_status);
  // The host's half first: it reports errors of both, in nvcc's own words.
  Compiled both = std::move(host);
  Join(device, both);
  if (both.trouble.empty()) TRY(sequence.Run(steps.join, 0, both));
  return both;
}

/// Writes the name with which both halves mark this file's private symbols as its own.
/// By default cudafe++ generates it and cicc waits for it. A fixed name avoids the wait and is the
/// same in every build.
Status WriteModuleId(const Job& job, const Unit& unit, Steps& steps) {
  std::string name = unit.source_name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  const std::string id = fmt::format("_{}_{}_{}", unit.identity, name.size(), name);
  for (Command& command : steps.host) {
    const auto generate = std::find(command.begin(), command.end(), "--gen_module_id_file");
    if (generate != command.end()) command.erase(generate);
  }
  const fs::path path = job.folder / MadeFor(unit, ".module_id");
  TRY(os::WriteFileAtomically(path, id));
  std::error_code error;  // independent of the umask: the compiler may run as another user
  fs::permissions(path, static_cast<fs::perms>(0644), error);
  return {};
}

/// The command that links all units, from nvcc's own command for `unit`.
Command LinkAll(const Job& job, const Unit& unit, Command link, bool filled) {
  const auto own = std::find(link.begin(), link.end(), MadeFor(unit, ".o"));
  if (own == link.end()) return link;
  std::vector<std::string> objects;
  objects.reserve(job.units.size());
  for (const Unit& one : job.units) objects.push_back(MadeFor(one, SuffixOf(filled, ".o")));
  link.insert(link.erase(own), objects.begin(), objects.end());
  std::ranges::replace(link, MadeFor(unit, ".so"), MadeFor(unit, SuffixOf(filled, ".so")));
  return link;
}

/// A unit's part of a build.
struct Part {
  Compiled compiled;
  std::string ptxas;
  Command link;                                    // of this unit alone
  std::map<std::string, std::string> environment;  // of that command
  std::vector<Command> object;                     // the commands that made its object
  bool can_fill = false;                           // CanFillVariables; of C++: true
};

/// The index of the first CUDA unit; the number of units if there is none.
size_t FirstCuda(const std::vector<Unit>& units) {
  const auto first =
      std::find_if(units.begin(), units.end(), [](const Unit& u) { return u.is_cuda; });
  return static_cast<size_t>(first - units.begin());
}

/// True for a name of a header that may be looked for in the job's folder: hostile ones could probe
/// for other files, and are shown.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.front() != '/' && name.find("..") == std::string_view::npos &&
         std::ranges::all_of(name, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                  std::string_view("_-+./").find(c) != std::string_view::npos;
         });
}

/// The headers that `preprocess` does not find. Nothing if they cannot be listed.
Result<std::vector<std::string>> MissingHeaders(const Job& job, const Runner& runner,
                                                Command preprocess) {
  const auto output = std::find(preprocess.begin(), preprocess.end(), "-o");
  if (preprocess.end() - output >= 2) preprocess.erase(output, output + 2);
  // Lists the files of a make rule. Missing ones count as files that make would generate.
  preprocess.insert(preprocess.end(), {"-M", "-MG"});
  TRY_ASSIGN(const os::RunResult result, runner.Run(preprocess, true, job.options->stop));
  std::vector<std::string> missing;
  if (!result.status.exited || result.status.code != 0) return missing;
  std::string_view rest = result.out;
  rest.remove_prefix(std::min(rest.find(": "), rest.size()));
  while (!rest.empty()) {
    size_t end = rest.find_first_of(" \n");
    // A blank in a name has a backslash in front of it.
    while (end != std::string_view::npos && end > 0 && rest.substr(end - 1, 2) == "\\ ")
      end = rest.find_first_of(" \n", end + 1);
    end = std::min(end, rest.size());
    const std::string name(rest.substr(0, end));
    std::error_code error;
    // The folder contains the candidate's own files.
    if (IsPlainName(name) && !fs::exists(job.folder / name, error)) missing.push_back(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return missing;
}

/// Appends an option for the host compiler to a command of it or of nvcc.
void AddHostOption(const Job& job, const std::string& option, Command& command) {
  if (command[0] == job.toolkit->nvcc.string()) command.emplace_back("-Xcompiler");
  command.push_back(option);
}

Status CompileUnit(const Job& job, const Unit& unit, Clock::time_point end,
                   std::stop_source& give_up, CompileWatch& watch, Part& part) {
  Runner runner(job, end);
  const Sequence sequence(job, runner, give_up, watch, Printable(unit.source_name));
  if (!unit.is_cuda) {
    part.can_fill = true;
    part.object = {Nvcc(job, unit, "-c")};
    AddHostOption(job, kHostOptimization, part.object[0]);
    TRY(sequence.Run(part.object, 0, part.compiled));
    if (!part.compiled.trouble.empty()) give_up.request_stop();
    return {};
  }
  Command dryrun = Nvcc(job, unit, "-shared");
  dryrun.insert(dryrun.begin() + 1, "--dryrun");
  const auto listing = runner.Run(dryrun, false, give_up.get_token());
  if (!listing && listing.error().code == ErrorCode::kCancelled &&
      !job.options->stop.stop_requested()) {
    part.compiled.trouble = Sequence::kGivenUp;
    return {};
  }
  TRY(listing);
  auto steps = listing->status.exited && listing->status.code == 0 ? ParseDryrun(listing->out)
                                                                   : std::optional<Steps>();
  if (steps) {
    TRY(WriteModuleId(job, unit, *steps));
    for (Command& command : steps->join) AddHostOption(job, kHostOptimization, command);
    runner.Set(steps->environment);
    part.link = steps->link.front();
    part.environment = steps->environment;
    part.object = steps->join;
    part.can_fill = CanFillVariables(*steps);
    TRY_ASSIGN(part.compiled, RunSteps(sequence, *steps, part.ptxas, give_up));
    if (Contains(part.compiled.output, ": No such file or directory")) {
      TRY_ASSIGN(part.compiled.missing_headers, MissingHeaders(job, runner, steps->host.front()));
    }
    return {};
  }
  // An nvcc with an unknown listing does all steps itself, in sequence.
  TRY(sequence.Run({Nvcc(job, unit, "-c")}, 1, part.compiled));
  part.ptxas = part.compiled.output;
  part.link = {job.toolkit->nvcc.string(), "-shared", "--cudart=none",
               MadeFor(unit, ".o"),        "-o",      MadeFor(unit, ".so")};
  return {};
}

/// True if a kernel has a structure among its parameters, which host code may fill in part.
bool TakesStructure(std::string_view ptx) {
  bool in_parameters = false;
  for (const std::string_view line : SplitLines(ptx)) {
    in_parameters = (in_parameters || Contains(line, ".entry ")) && !line.starts_with(")");
    if (in_parameters && Contains(line, " .b8 ")) return true;
  }
  return false;
}

/// True if the GPU may get bytes that host code fills in part: a kernel takes a structure, or the
/// linked object calls a function that copies memory.
Result<bool> MayLeaveUndefined(const Job& job, const std::filesystem::path& object) {
  for (const Unit& unit : job.units) {
    if (!unit.is_cuda) continue;
    TRY_ASSIGN(const std::string ptx, os::ReadFile(job.folder / MadeFor(unit, ".ptx"), kMaxMade));
    if (TakesStructure(ptx)) return true;
  }
  TRY_ASSIGN(const std::string linked, os::ReadFile(object, kMaxMade));
  return Contains(linked, "cudaMemcpy") || Contains(linked, "cuMemcpyHtoD");
}

/// Replaces a word. False if it is not there.
bool Replace(Command& command, const std::string& word, const std::string& by) {
  const auto found = std::ranges::find(command, word);
  if (found == command.end()) return false;
  *found = by;
  return true;
}

/// Makes `all.filled_object` if possible, after the usual objects. `linked` is the part whose
/// command links.
Status AddFilled(const Job& job, const std::vector<Part>& parts, const Part& linked,
                 std::stop_source& give_up, CompileWatch& watch, Compiled& all) {
  const Unit& first = job.units[FirstCuda(job.units)];
  const Clock::time_point end = Clock::now() + job.options->deadline;
  Compiled made;
  const auto run = [&](const Part& part, const std::string& file,
                       const std::vector<Command>& commands) -> Status {
    if (!made.trouble.empty()) return {};
    Runner runner(job, end);
    runner.Set(part.environment);
    return Sequence(job, runner, give_up, watch, file).Run(commands, 0, made);
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Unit& unit = job.units[i];
    std::vector<Command> commands = parts[i].object;
    bool is_known = false;  // else the usual object would be overwritten
    for (Command& command : commands) {
      is_known |= Replace(command, MadeFor(unit, ".o"), MadeFor(unit, SuffixOf(true, ".o")));
      AddHostOption(job, kFillVariables, command);
    }
    if (!is_known) return {};
    TRY(run(parts[i], Printable(unit.source_name), commands));
  }
  const Command link = LinkAll(job, first, linked.link, true);
  if (link == linked.link) return {};
  TRY(run(linked, "linking", {link}));
  if (!made.trouble.empty()) return {};  // not the candidate's fault: the usual objects compiled
  KeepWeaker(made.sandbox, all.sandbox);
  all.filled_object = job.folder / MadeFor(first, SuffixOf(true, ".so"));
  return {};
}

/// The whole build is one command, which makes `made`.
Result<Compiled> RunAlone(const Job& job, const Command& command, Compiled::Code made) {
  const Runner runner(job, Clock::now() + job.options->deadline);
  std::stop_source give_up;
  const std::stop_callback pass_on(job.options->stop, [&] { give_up.request_stop(); });
  CompileWatch watch(job.units.size(), job.options->progress);
  Compiled compiled;
  TRY(Sequence(job, runner, give_up, watch, Printable(job.units.front().source_name))
          .Run({command}, 0, compiled));
  compiled.ok = compiled.trouble.empty();
  made.ptxas = compiled.output;
  compiled.code.push_back(std::move(made));
  return compiled;
}

/// Both halves of a unit run at once, so half of the cores may each have a unit.
size_t LanesFor(const Job& job) {
  return std::min(std::max<size_t>(1, Cores() / 2), job.units.size());
}

/// C++ files take seconds, device code may take minutes: what is wrong with the former is known
/// before the latter begins.
std::vector<size_t> CheapestFirst(const std::vector<Unit>& units) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return !units[i].is_cuda; });
  return order;
}

}  // namespace

Result<Compiled> Compile(const Job& job) {
  const size_t first = FirstCuda(job.units);
  if (first == job.units.size()) {
    return Fail(ErrorCode::kInternal, "a build without a CUDA file");
  }
  const Clock::time_point end = Clock::now() + job.options->deadline;
  std::stop_source give_up;
  const std::stop_callback pass_on(job.options->stop, [&] { give_up.request_stop(); });
  CompileWatch watch(job.units.size(), job.options->progress);
  std::vector<Part> parts(job.units.size());
  const std::vector<size_t> order = CheapestFirst(job.units);
  TRY(ForEachOnLanes(LanesFor(job), parts.size(), [&](size_t, size_t at) {
    const size_t i = order[at];
    Status status = CompileUnit(job, job.units[i], end, give_up, watch, parts[i]);
    watch.Finishes();
    return status;
  }));
  Compiled all = std::move(parts[0].compiled);
  for (size_t i = 1; i < parts.size(); ++i) Join(parts[i].compiled, all);
  if (all.trouble.empty()) {
    Runner runner(job, end);
    runner.Set(parts[first].environment);
    const Sequence sequence(job, runner, give_up, watch, "linking");
    TRY(sequence.Run({LinkAll(job, job.units[first], parts[first].link, false)}, 0, all));
  }
  all.shared_object = job.folder / MadeFor(job.units[first], ".so");
  if (all.trouble.empty() && std::ranges::all_of(parts, &Part::can_fill)) {
    TRY_ASSIGN(const bool may_leave_undefined, MayLeaveUndefined(job, all.shared_object));
    if (may_leave_undefined) TRY(AddFilled(job, parts, parts[first], give_up, watch, all));
  }
  all.ok = all.trouble.empty();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Unit& unit = job.units[i];
    if (!unit.is_cuda) continue;
    all.code.push_back(
        {std::move(parts[i].ptxas), job.folder / MadeFor(unit, ".ptx"), CubinOf(job, unit)});
  }
  return all;
}

Result<Compiled> CompileDevice(const Job& job) {
  const Unit& unit = job.units.front();
  const fs::path output = CubinOf(job, unit);
  Command nvcc = Nvcc(job, unit, "--cubin");
  nvcc.back() = output.string();
  return RunAlone(job, nvcc, {"", job.folder / MadeFor(unit, ".ptx"), output});
}

Result<Compiled> Assemble(const Job& job) {
  const Unit& unit = job.units.front();
  const fs::path output = CubinOf(job, unit);
  Command ptxas = {(job.toolkit->nvcc.parent_path() / "ptxas").string(),
                   "-v",
                   "--gpu-name=" + job.options->arch,
                   unit.source_name,
                   "-o",
                   output.string()};
  ptxas.insert(ptxas.end(), job.flags.begin(), job.flags.end());
  return RunAlone(job, ptxas, {"", {}, output});
}

}  // namespace cupel::build
