// A Confinement translated into the arguments of the child's system calls: the parent's half of the
// sandbox. The child's half is sandbox_child.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/child.h"
#include "os/sandbox.h"

namespace cupel::os {

/// One step in building the child's file system. Paths are relative to the new root.
struct ViewStep {
  enum Kind { kFolder, kFile, kLink, kBind, kTmpfs, kProc } kind = kFolder;
  std::string path;
  std::string source;     // kBind: absolute, outside; kLink: the link's text
  bool writable = false;  // kBind
  bool device = false;    // kBind: keep it usable as a device
  int tree = -1;          // kBind, in the child: the detached mount
};

/// What Landlock allows below `path` (as the child sees it).
struct PathRule {
  std::string path;
  uint64_t access = 0;
  bool only_in_view = false;  // skip if the old root is still in place: the path is not ours there
};

/// "nobody" on every Linux system, and the kernel's overflow user.
inline constexpr uid_t kNobody = 65534;

struct SandboxPlan {
  std::vector<ViewStep> view;
  std::vector<PathRule> rules;
  std::vector<sock_filter> filter;  // empty: no seccomp
  struct Limit {
    int resource;
    rlim_t value;
  };
  std::vector<Limit> limits;
  std::vector<std::string> writable;  // resolved
  bool network = false;
  bool allow_weak = false;
  bool view_ready = false;  // in the child: the new root is in place
  uid_t uid = 0;            // ours
  gid_t gid = 0;
};

Status PlanSandbox(const Confinement& confinement, SandboxPlan& plan, SandboxReport& report);
/// Clone flags to try, most isolated first; the last is 0.
std::vector<uint64_t> NamespaceChoices(const SandboxPlan& plan);
/// `error` is why an earlier choice failed.
void NoteNamespaces(const SandboxPlan& plan, uint64_t flags, int error, SandboxReport& report);
/// Maps the child's user IDs while the child waits. True if the target can become nobody, who then
/// owns the writable folders.
bool WriteIdMaps(const SandboxPlan& plan, pid_t pid, SandboxReport& report);
void NoteReport(const SandboxPlan& plan, const ChildReport& step, SandboxReport& report);

/// The seccomp programs, compiled once.
Result<std::vector<sock_filter>> SyscallFilter(SyscallProfile profile);

}  // namespace cupel::os
