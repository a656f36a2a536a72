// SPDX-License-Identifier: Apache-2.0
#include "app/confirm/confirm_child.h"

#include <fmt/format.h>
#include <unistd.h>

#include "build/build.h"
#include "oracle/environment.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/process.h"
#include "os/programs.h"
#include "os/temp_dir.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxResult = 8u << 20;
constexpr size_t kMaxFailure = 2000;

std::string Variable(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

void AddPaths(const Json& look, const char* key, std::vector<fs::path>& paths) {
  if (!look.contains(key) || !look[key].is_array()) return;
  for (const Json& path : look[key]) {
    if (path.is_string() && path.get<std::string>().starts_with('/')) {
      paths.emplace_back(path.get<std::string>());
    }
  }
}

/// The driver's device files for all GPUs. CUDA_VISIBLE_DEVICES selects the GPU that a process
/// uses.
std::vector<fs::path> GpuDevices() {
  std::vector<fs::path> devices;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    if (entry.path().filename().string().starts_with("nvidia")) devices.push_back(entry.path());
  }
  return devices;
}

/// The last lines of a child's output.
std::string Tail(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() > kMaxFailure) text.remove_prefix(text.size() - kMaxFailure);
  return std::string(text);
}

/// Writes a file that every user can read: a sandboxed child may run as another user.
Status WriteForAll(const fs::path& path, const std::string& text) {
  TRY(os::WriteFileAtomically(path, text));
  std::error_code error;
  fs::permissions(path, static_cast<fs::perms>(0644), error);
  return {};
}

}  // namespace

const char* Describe(SandboxLevel sandbox_level) {
  switch (sandbox_level) {
    case SandboxLevel::kFull:
      return "sandbox: can read only the toolkit, PyTorch and the driver; no network";
    case SandboxLevel::kWide:
      return "weaker sandbox: can read all files that this user can read; no network";
    case SandboxLevel::kNone:
      return "no sandbox: CUDA does not start in the sandbox on this machine";
  }
  return "";
}

Result<ConfirmChildren> ConfirmChildren::Create(const std::string& python, int ordinal,
                                                const std::stop_token& stop) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  ConfirmChildren children;
  TRY_ASSIGN(children.python_, oracle::FindPython(python, cache / "pythons.json", stop));
  children.stop_ = stop;
  children.script_ = data / "src" / "oracle" / "py" / "confirm.py";
  children.ordinal_ = ordinal;
  TRY_ASSIGN(ChildReply reply,
             children.RunTrusted("look", Json::object(), std::chrono::minutes(5)));
  if (!reply.failure.empty()) {
    return Fail(ErrorCode::kEnvironment, "PyTorch does not start: " + reply.failure);
  }
  children.look_ = std::move(reply.json);
  return children;
}

Status ConfirmChildren::RequireCuda() const {
  if (look_.contains("torch_cuda") && look_["torch_cuda"].is_string()) return {};
  return Fail(ErrorCode::kEnvironment,
              fmt::format("unsupported on this machine: PyTorch {} of {} is built without CUDA",
                          python_.torch_version, python_.program),
              "set CUPEL_PYTHON to a Python whose PyTorch has CUDA, or use cupel check");
}

os::Confinement ConfirmChildren::Confine(SandboxLevel level, bool gpu) const {
  os::Confinement confinement;
  confinement.syscalls = os::SyscallProfile::kProgram;
  confinement.allow_weak = allow_weak_;
  confinement.processes_view = true;
  confinement.processes = 4096;  // threads count
  confinement.file_bytes = uint64_t{16} << 30;
  if (gpu) confinement.devices = GpuDevices();
  confinement.readable = {"/bin", "/sbin", "/usr", "/lib", "/lib64", "/sys", "/etc/alternatives"};
  for (const char* file : {"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "passwd",
                           "group", "nsswitch.conf", "nvidia", "python3"}) {
    confinement.readable.push_back(fs::path("/etc") / file);
  }
  const auto environment = os::CurrentEnvironment();
  for (const fs::path& path : os::FoldersOf(Variable(environment, "LD_LIBRARY_PATH"))) {
    confinement.readable.push_back(path);
  }
  AddPaths(look_, "paths", confinement.readable);
  AddPaths(look_, "programs", confinement.readable);
  if (const auto toolkit = build::FindToolkit(stop_)) confinement.readable.push_back(toolkit->root);
  confinement.readable.emplace_back(python_.program);
  confinement.readable.push_back(script_);
  if (level == SandboxLevel::kWide) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/", error)) {
      const std::string name = entry.path().filename().string();
      if (name == "tmp" || name == "proc" || name == "dev" || name == "run") continue;
      // If root starts the child, it runs as another user. That user cannot enter a private folder
      // such as /root, so the folder would also hide the readable paths below it.
      const fs::perms others = entry.status(error).permissions() & fs::perms::others_exec;
      if (::geteuid() == 0 && others == fs::perms::none) continue;
      confinement.readable.push_back(entry.path());
    }
    confinement.devices.emplace_back("/dev");
  }
  return confinement;
}

Result<ChildReply> ConfirmChildren::Run(const std::string& mode, const Json& request,
                                        const fs::path& folder, const os::Confinement* confinement,
                                        const fs::path& home, std::chrono::seconds deadline) const {
  const fs::path question = folder / "in" / "request.json", answer = home / "result.json";
  TRY(WriteForAll(question, DumpJson(request)));
  os::SpawnOptions spawn;
  spawn.argv = {python_.program, "-B", script_.string(), mode, question.string(), answer.string()};
  spawn.env = oracle::ChildEnvironment();
  if (confinement != nullptr) {
    const auto ours = os::CurrentEnvironment();
    std::string path = Variable(ours, "PATH");
    if (const auto toolkit = build::FindToolkit(stop_)) {
      path = toolkit->nvcc.parent_path().string() + ":" + path;
      spawn.env = {{"CUDA_HOME", toolkit->root.string()}};
    } else {
      spawn.env.clear();
    }
    for (const char* name : {"LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES",
                             "CUDA_DEVICE_ORDER", "VIRTUAL_ENV", "PYTHONHOME"}) {
      if (ours.contains(name)) spawn.env[name] = ours.at(name);
    }
    spawn.env["PATH"] = path + ":/usr/local/bin:/usr/bin:/bin";
    spawn.env["LC_ALL"] = "C.UTF-8";
    spawn.env["USER"] = "cupel";
    for (const char* name : {"HOME", "TMPDIR", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR",
                             "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"}) {
      spawn.env[name] = home.string();
    }
  }
  if (request.contains("arch_list")) {
    spawn.env["TORCH_CUDA_ARCH_LIST"] = request["arch_list"].get<std::string>();
  }
  spawn.directory = home;
  spawn.stop = stop_;
  spawn.confinement = confinement;
  spawn.merge_stderr = true;
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), deadline));
  ChildReply reply;
  const auto text = os::ReadFile(answer, kMaxResult);
  auto json = text ? ParseJson(*text, "result.json") : Json();
  if (json && json->is_object()) reply.json = std::move(*json);
  if (!run.status.exited || run.status.code != 0) {
    reply.failure = fmt::format("{}: {}", run.status.Describe(), Tail(run.out));
  } else if (reply.json.contains("failure") && reply.json["failure"].is_string()) {
    reply.failure = reply.json["failure"].get<std::string>().substr(0, kMaxFailure);
  } else if (reply.json.empty()) {
    reply.failure = "the process wrote no result: " + Tail(run.out);
  }
  return reply;
}

Result<ChildReply> ConfirmChildren::RunConfined(const std::string& mode, const Json& request,
                                                const std::vector<fs::path>& readable,
                                                const fs::path& writable, bool gpu,
                                                std::chrono::seconds deadline) const {
  TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
  std::error_code error;
  fs::create_directory(folder.path() / "in", error);
  const fs::path home = writable.empty() ? folder.path() / "out" : writable;
  fs::create_directory(home, error);
  if (sandbox_level_ == SandboxLevel::kNone) {
    return Run(mode, request, folder.path(), nullptr, home, deadline);
  }
  os::Confinement confinement = Confine(sandbox_level_, gpu);
  confinement.readable.push_back(folder.path() / "in");
  for (const fs::path& path : readable) confinement.readable.push_back(path);
  confinement.writable = {home};
  return Run(mode, request, folder.path(), &confinement, home, deadline);
}

Result<ChildReply> ConfirmChildren::RunTrusted(const std::string& mode, const Json& request,
                                               std::chrono::seconds deadline) const {
  TRY_ASSIGN(const os::TempDir folder, os::TempDir::Create());
  std::error_code error;
  fs::create_directory(folder.path() / "in", error);
  return Run(mode, request, folder.path(), nullptr, folder.path(), deadline);
}

/// The protections that the operating system does not provide, found by starting a trivial child.
std::vector<std::string> MissingProtections(const os::Confinement& confinement) {
  os::SpawnOptions spawn;
  spawn.argv = {"/bin/true"};
  spawn.confinement = &confinement;
  auto process = os::Process::Spawn(spawn);
  if (!process) return {process.error().message};
  std::vector<std::string> missing = process->sandbox().missing;
  (void)process->Wait(std::chrono::seconds(10));
  return missing;
}

/// Whether CUDA starts at this level. Stores the protections that the operating system lacks.
Result<bool> ConfirmChildren::Try(SandboxLevel level) {
  sandbox_level_ = level;
  TRY_ASSIGN(ChildReply reply, RunConfined("try", Json{{"ordinal", ordinal_}}, {}, {}, true,
                                           std::chrono::minutes(3)));
  const bool works = reply.failure.empty() && reply.json.contains("works") &&
                     reply.json["works"].is_boolean() && reply.json["works"].get<bool>();
  if (!works) {
    last_failure_ = reply.failure;
    return false;
  }
  if (reply.json.contains("gpu") && reply.json["gpu"].is_string()) {
    gpu_ = reply.json["gpu"].get<std::string>().substr(0, 200);
  }
  missing_ = level == SandboxLevel::kNone ? std::vector<std::string>{"everything"}
                                          : MissingProtections(Confine(level, true));
  return true;
}

Status ConfirmChildren::FindConfinement(bool unsandboxed) {
  for (const SandboxLevel level : {SandboxLevel::kFull, SandboxLevel::kWide}) {
    TRY_ASSIGN(const bool works, Try(level));
    if (works) return {};
  }
  const std::string why = last_failure_;
  if (unsandboxed) {
    TRY_ASSIGN(const bool works, Try(SandboxLevel::kNone));
    if (works) return {};
    return Fail(ErrorCode::kEnvironment, "CUDA does not start from PyTorch: " + last_failure_);
  }
  return Fail(ErrorCode::kEnvironment, "CUDA does not start in the sandbox: " + why,
              "if you trust this kernel, run it without a sandbox: --unsandboxed");
}

}  // namespace cupel::app
