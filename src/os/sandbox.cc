// The parent's half of the sandbox: translates a Confinement into mounts, Landlock rules, limits
// and namespaces, and records which of them the kernel refused.
// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "os/landlock.h"
#include "os/sandbox_plan.h"

namespace cupel::os {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kIsolation = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;

/// A path of the confinement with all symbolic links resolved, and the links to recreate.
struct Resolved {
  fs::path real;
  std::vector<std::pair<fs::path, std::string>> links;
  bool folder = false;
};

/// False when the path does not exist.
bool Resolve(const fs::path& path, Resolved& out) {
  std::error_code error;
  fs::path rest = fs::absolute(path, error).lexically_normal();
  fs::path done = "/";
  for (int links = 0; links <= 40;) {
    auto part = rest.begin();
    while (part != rest.end() && (*part == "/" || part->empty())) ++part;
    if (part == rest.end()) {
      out.real = done;
      out.folder = fs::is_directory(done, error);
      return out.folder || fs::exists(done, error);
    }
    const fs::path next = done / *part;
    fs::path tail;
    for (++part; part != rest.end(); ++part) tail /= *part;
    struct stat info{};
    if (lstat(next.c_str(), &info) != 0) return false;
    if (!S_ISLNK(info.st_mode)) {
      done = next;
      rest = tail;
      continue;
    }
    ++links;
    const fs::path target = fs::read_symlink(next, error);
    out.links.emplace_back(next, target.string());
    rest = ((target.is_absolute() ? target : done / target) / tail).lexically_normal();
    done = "/";
  }
  return false;
}

bool Under(const fs::path& path, const fs::path& folder) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

struct Bind {
  fs::path path;
  bool writable = false, folder = false, device = false;
  bool control = false;  // a device that needs ioctl as well as reads and writes
};

/// The nearest bind above `path`, or null.
const Bind* Above(const std::vector<Bind>& binds, const fs::path& path) {
  const Bind* best = nullptr;
  for (const Bind& bind : binds) {
    if (bind.path == path || !bind.folder || !Under(path, bind.path)) continue;
    if (best == nullptr || Under(bind.path, best->path)) best = &bind;
  }
  return best;
}

void AddParents(const std::vector<Bind>& binds, const fs::path& path, std::vector<ViewStep>& view) {
  std::vector<fs::path> parents;
  for (fs::path p = path.parent_path(); p != p.root_path(); p = p.parent_path()) {
    parents.push_back(p);
  }
  for (auto it = parents.rbegin(); it != parents.rend(); ++it) {
    const bool bound =
        std::any_of(binds.begin(), binds.end(), [&](const Bind& bind) { return bind.path == *it; });
    if (bound || Above(binds, *it) != nullptr) continue;
    view.push_back({ViewStep::kFolder, it->relative_path().string(), {}, false, false, -1});
  }
}

/// The steps: mount points and links first, then the mounts, outer ones before inner ones.
std::vector<ViewStep> PlanView(std::vector<Bind> binds,
                               const std::vector<std::pair<fs::path, std::string>>& links,
                               bool temporary) {
  std::sort(binds.begin(), binds.end(), [](const Bind& a, const Bind& b) {
    return a.path != b.path ? a.path < b.path : a.writable > b.writable;
  });
  std::vector<Bind> kept;
  for (const Bind& bind : binds) {
    const Bind* above = Above(kept, bind.path);
    const bool twice = !kept.empty() && kept.back().path == bind.path;
    if (!twice && (above == nullptr || above->writable != bind.writable)) kept.push_back(bind);
  }
  std::vector<ViewStep> view;
  if (temporary) {
    view.push_back({ViewStep::kFolder, "tmp", {}, false, false, -1});
    view.push_back({ViewStep::kTmpfs, "tmp", {}, true, false, -1});
  }
  for (const Bind& bind : kept) {
    if (Above(kept, bind.path) != nullptr) continue;  // the outer bind contains its mount point
    AddParents(kept, bind.path, view);
    view.push_back({bind.folder ? ViewStep::kFolder : ViewStep::kFile,
                    bind.path.relative_path().string(),
                    {},
                    false,
                    false,
                    -1});
  }
  for (const auto& [path, target] : links) {
    if (Above(kept, path) != nullptr) continue;
    AddParents(kept, path, view);
    view.push_back({ViewStep::kLink, path.relative_path().string(), target, false, false, -1});
  }
  for (const Bind& bind : kept) {
    view.push_back({ViewStep::kBind, bind.path.relative_path().string(), bind.path.string(),
                    bind.writable, bind.device, -1});
  }
  return view;
}

uint64_t AccessOf(const Bind& bind) {
  uint64_t access = landlock::kRead;
  if (bind.writable || bind.device) access |= landlock::kWrite;
  if (bind.device) access &= ~landlock::kExecute;
  if (bind.control) access |= landlock::kIoctlDevice;
  if (!bind.folder) access &= landlock::kFileRights;
  return access;
}

/// Before Linux 5.14 the limit counts all processes of the user, not those of the namespace.
bool LimitsProcessesByNamespace() {
  utsname info{};
  int major = 0, minor = 0;
  return uname(&info) == 0 && std::sscanf(info.release, "%d.%d", &major, &minor) == 2 &&
         (major > 5 || (major == 5 && minor >= 14));
}

void PlanLimits(const Confinement& confinement, SandboxPlan& plan, SandboxReport& report) {
  const auto add = [&](int resource, uint64_t value) {
    if (value != 0) plan.limits.push_back({resource, value});
  };
  plan.limits.push_back({RLIMIT_CORE, 0});
  add(RLIMIT_AS, confinement.address_space_bytes);
  add(RLIMIT_DATA, confinement.data_bytes);
  add(RLIMIT_FSIZE, confinement.file_bytes);
  add(RLIMIT_CPU, confinement.cpu_seconds);
  add(RLIMIT_NOFILE, 1024);
  if (confinement.processes == 0) return;
  if (LimitsProcessesByNamespace()) {
    add(RLIMIT_NPROC, confinement.processes);
  } else {
    report.missing.emplace_back("process limit: needs Linux 5.14");
  }
}

bool WriteProc(pid_t pid, const char* file, const std::string& text) {
  const Fd fd(open(fmt::format("/proc/{}/{}", pid, file).c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

Status PlanSandbox(const Confinement& confinement, SandboxPlan& plan, SandboxReport& report) {
  std::vector<Bind> binds;
  std::vector<std::pair<fs::path, std::string>> links;
  const auto add = [&](const fs::path& path, bool writable, bool device) {
    Resolved resolved;
    if (!Resolve(path, resolved)) return false;
    links.insert(links.end(), resolved.links.begin(), resolved.links.end());
    binds.push_back({resolved.real, writable, resolved.folder, device, false});
    return true;
  };
  for (const fs::path& path : confinement.readable) add(path, false, false);
  for (const fs::path& path : confinement.writable) {
    if (!add(path, true, false)) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("the folder {} for a child does not exist", path.string()));
    }
    plan.writable.push_back(binds.back().path.string());
  }
  for (const fs::path& path : confinement.devices) {
    if (add(path, false, true)) binds.back().control = true;
  }
  add("/dev/null", false, true);
  const bool is_tracer = confinement.syscalls == SyscallProfile::kTracer;
  const bool temporary = confinement.syscalls != SyscallProfile::kRecorder && !is_tracer;
  // Not for compilers: a compiler that includes such a file would read until its memory is full.
  if (confinement.syscalls == SyscallProfile::kProgram) add("/dev/zero", false, true);
  if (confinement.syscalls == SyscallProfile::kProgram || is_tracer) {
    add("/dev/urandom", false, true);
  }
  for (const Bind& bind : binds) plan.rules.push_back({bind.path.string(), AccessOf(bind)});
  if (temporary) plan.rules.push_back({"/tmp", landlock::kRead | landlock::kWrite, true});
  plan.view = PlanView(std::move(binds), links, temporary);
  if (confinement.processes_view) {
    plan.view.push_back({ViewStep::kFolder, "proc", {}, false, false, -1});
    plan.view.push_back({ViewStep::kProc, "proc", {}, false, false, -1});
    // CUDA does not start if a thread cannot write its name.
    plan.rules.push_back(
        {"/proc", landlock::kRead | landlock::kWriteFile | landlock::kTruncate, true});
  }
  PlanLimits(confinement, plan, report);
  plan.network = confinement.network;
  plan.allow_weak = confinement.allow_weak || confinement.syscalls == SyscallProfile::kUnrestricted;
  plan.uid = geteuid();
  plan.gid = getegid();
  if (confinement.syscalls != SyscallProfile::kUnrestricted) {
    auto filter = SyscallFilter(confinement.syscalls);
    if (filter) {
      plan.filter = std::move(*filter);
    } else {
      report.missing.push_back("seccomp: " + filter.error().message);
    }
  }
  return {};
}

std::vector<uint64_t> NamespaceChoices(const SandboxPlan& plan) {
  const uint64_t network = plan.network ? 0 : CLONE_NEWNET;
  std::vector<uint64_t> choices = {CLONE_NEWUSER | kIsolation | network,
                                   CLONE_NEWUSER | kIsolation};
  if (plan.uid == 0) choices.insert(choices.end(), {kIsolation | network, kIsolation});
  choices.push_back(0);
  return choices;
}

void NoteNamespaces(const SandboxPlan& plan, uint64_t flags, int error, SandboxReport& report) {
  const auto note = [&](uint64_t flag, bool& has, const char* name) {
    has = (flags & flag) != 0;
    if (!has) report.missing.push_back(fmt::format("{} namespace: {}", name, std::strerror(error)));
  };
  note(CLONE_NEWUSER, report.user_namespace, "user");
  note(CLONE_NEWPID, report.pid_namespace, "pid");
  if (!plan.network) note(CLONE_NEWNET, report.network_namespace, "network");
}

bool WriteIdMaps(const SandboxPlan& plan, pid_t pid, SandboxReport& report) {
  if (!report.user_namespace) return plan.uid == 0;
  // Root keeps its ID to build the file system view. The target becomes nobody, to whom limits
  // apply.
  const std::string nobody = fmt::format("0 0 1\n{0} {0} 1\n", kNobody);
  if (plan.uid == 0 && WriteProc(pid, "uid_map", nobody) && WriteProc(pid, "gid_map", nobody)) {
    return true;
  }
  WriteProc(pid, "setgroups", "deny");
  if (!WriteProc(pid, "uid_map", fmt::format("{0} {0} 1\n", plan.uid)) ||
      !WriteProc(pid, "gid_map", fmt::format("{0} {0} 1\n", plan.gid))) {
    report.missing.push_back(fmt::format("user namespace's map: {}", std::strerror(errno)));
  }
  return false;
}

void NoteReport(const SandboxPlan& plan, const ChildReport& step, SandboxReport& report) {
  const char* what = std::strerror(step.error);
  switch (step.step) {
    case ChildReport::kMounts:
      report.mount_namespace = step.error == 0;
      if (step.error != 0) {
        const bool known = step.detail >= 0 && static_cast<size_t>(step.detail) < plan.view.size();
        const std::string where =
            known ? " (/" + plan.view[static_cast<size_t>(step.detail)].path + ")" : "";
        report.missing.push_back(fmt::format("mount namespace: {}{}", what, where));
      }
      break;
    case ChildReport::kIdentity:
      report.missing.push_back(fmt::format("user nobody: {}", what));
      break;
    case ChildReport::kLandlock:
      report.landlock = step.error == 0;
      report.landlock_abi = step.detail;
      if (step.error != 0) report.missing.push_back(fmt::format("Landlock: {}", what));
      break;
    case ChildReport::kSeccomp:
      report.seccomp = step.error == 0;
      if (step.error != 0) report.missing.push_back(fmt::format("seccomp: {}", what));
      break;
    case ChildReport::kLimits:
      report.missing.push_back(step.detail == RLIMIT_NPROC
                                   ? "process limit: needs a user namespace"
                                   : fmt::format("limit {}: {}", step.detail, what));
      break;
    default:
      break;
  }
}

bool SandboxReport::IsEnough() const {
  return seccomp &&
         (mount_namespace || (landlock && landlock_abi >= landlock::kMinAbiWithoutMounts));
}

SandboxReport ProbeSandbox() {
  Confinement confinement;
  confinement.syscalls = SyscallProfile::kCompiler;
  confinement.readable = {"/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib", "/usr/lib64"};
  confinement.processes = 64;
  confinement.allow_weak = true;  // to report what is missing
  SpawnOptions options;
  options.argv = {"/bin/true"};
  options.confinement = &confinement;
  auto process = Process::Spawn(options);
  if (!process) {
    SandboxReport report;
    report.missing.push_back(process.error().message);
    return report;
  }
  SandboxReport report = process->sandbox();
  const auto status = process->Wait(std::chrono::seconds(10));
  if (!status || !status->exited || status->code != 0) {
    report.missing.push_back("a program in the sandbox: " +
                             (status ? status->Describe() : status.error().message));
  }
  return report;
}

}  // namespace cupel::os
