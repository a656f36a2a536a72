// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox_child.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "os/landlock.h"
#include "os/sandbox_plan.h"

namespace cupel::os {
namespace {

/// A detached copy of the tree at the step's source, read-only unless the step is writable. Being
/// detached, it needs no path: a source below /tmp is not lost when the new root is mounted there.
int CloneTree(const ViewStep& step) {
  const int tree = static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, step.source.c_str(),
                                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (tree < 0) return -1;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_NOSUID;
  if (!step.device) attributes.attr_set |= MOUNT_ATTR_NODEV;
  if (!step.writable) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  const long done = syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                            sizeof attributes);
  return done == 0 ? tree : -1;
}

/// Relative to the new root, which is the working directory.
bool Perform(const ViewStep& step) {
  switch (step.kind) {
    case ViewStep::kFolder:
      return mkdir(step.path.c_str(), 0755) == 0 || errno == EEXIST;
    case ViewStep::kFile: {
      const int fd = open(step.path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      if (fd < 0) return false;
      close(fd);
      return true;
    }
    case ViewStep::kLink:
      return symlink(step.source.c_str(), step.path.c_str()) == 0 || errno == EEXIST;
    case ViewStep::kBind:
      return syscall(SYS_move_mount, step.tree, "", AT_FDCWD, step.path.c_str(),
                     MOVE_MOUNT_F_EMPTY_PATH) == 0;
    case ViewStep::kTmpfs:
      return mount("tmpfs", step.path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
                   "size=256m,mode=1777") == 0;
    case ViewStep::kProc:  // of this namespace, in which this process is process 1
      return mount("proc", step.path.c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) ==
             0;
  }
  return false;
}

/// True if the new root is in place. On failure the old root is still in place.
bool BuildView(SandboxPlan& plan, int& failed) {
  failed = -1;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  for (ViewStep& step : plan.view) {
    if (step.kind != ViewStep::kBind) continue;
    step.tree = CloneTree(step);
    if (step.tree < 0) {
      failed = static_cast<int>(&step - plan.view.data());
      return false;
    }
  }
  // Any folder that exists on every system can be the mount point of the new root. The content that
  // it hides is not needed.
  const char* base = "/tmp";
  if (mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "size=16m,mode=0755") != 0) return false;
  if (chdir(base) != 0) return false;
  for (ViewStep& step : plan.view) {
    if (Perform(step)) continue;
    failed = static_cast<int>(&step - plan.view.data());
    break;
  }
  if (failed >= 0 || syscall(SYS_pivot_root, ".", ".") != 0) {
    const int saved = errno;
    (void)!chdir("/");
    umount2(base, MNT_DETACH);
    errno = saved;
    return false;
  }
  return umount2(".", MNT_DETACH) == 0 && chdir("/") == 0 &&
         mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
               nullptr) == 0;
}

void DropCapabilities() {
  prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED);
  for (int capability = 0; capability < 64; ++capability) prctl(PR_CAPBSET_DROP, capability);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  syscall(SYS_capset, &header, data);
}

bool AddRule(int ruleset, const PathRule& rule, uint64_t handled) {
  const int fd = open(rule.path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return false;
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = rule.access & handled;
  beneath.parent_fd = fd;
  const long done =
      syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  close(fd);
  return done == 0;
}

/// The ABI, or -1 with errno.
int EnterLandlock(const SandboxPlan& plan) {
  const int abi = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
  if (abi < 1) return -1;
  landlock::Ruleset attributes{landlock::FsRights(abi), 0, 0};
  if (abi >= 4 && !plan.network) attributes.net = 3;
  if (abi >= 6) attributes.scoped = plan.network ? 2 : 3;
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (ruleset < 0) return -1;
  // A missing path gets no rule and so no rights, as intended.
  for (const PathRule& rule : plan.rules) {
    if (!rule.only_in_view || plan.view_ready) AddRule(ruleset, rule, attributes.fs);
  }
  const long done = syscall(SYS_landlock_restrict_self, ruleset, 0);
  const int saved = errno;
  close(ruleset);
  errno = saved;
  return done == 0 ? abi : -1;
}

}  // namespace

void EnterView(ChildPlan& plan) {
  SandboxPlan& sandbox = *plan.sandbox;
  if (!plan.mount_namespace) {
    Report(plan, ChildReport::kMounts, EPERM, -1);
    return;
  }
  int failed = -1;
  sandbox.view_ready = BuildView(sandbox, failed);
  Report(plan, ChildReport::kMounts, sandbox.view_ready ? 0 : errno, failed);
  constexpr char kName[] = "cupel";
  (void)!sethostname(kName, sizeof kName - 1);
}

void RestrictIdentity(ChildPlan& plan) {
  const SandboxPlan& sandbox = *plan.sandbox;
  umask(022);
  const bool become_nobody = plan.root_map && sandbox.view_ready;
  for (const SandboxPlan::Limit& limit : sandbox.limits) {
    // The kernel does not apply this limit to root. Without a user namespace it also counts the
    // user's other processes.
    if (limit.resource == RLIMIT_NPROC &&
        (!plan.user_namespace || (sandbox.uid == 0 && !become_nobody))) {
      Report(plan, ChildReport::kLimits, EPERM, limit.resource);
      continue;
    }
    rlimit64 value{limit.value, limit.value};
    // SIGXCPU at the soft limit names the cause. The hard limit kills programs that ignore it.
    if (limit.resource == RLIMIT_CPU) value.rlim_max += 1;
    rlimit64 current{};
    getrlimit64(static_cast<__rlimit_resource>(limit.resource), &current);
    if (value.rlim_max > current.rlim_max) value.rlim_max = current.rlim_max;
    if (value.rlim_cur > value.rlim_max) value.rlim_cur = value.rlim_max;
    if (setrlimit64(static_cast<__rlimit_resource>(limit.resource), &value) != 0) {
      Report(plan, ChildReport::kLimits, errno, limit.resource);
    }
  }
  for (const std::string& folder : sandbox.writable) {
    if (become_nobody && chown(folder.c_str(), kNobody, kNobody) != 0) {
      Report(plan, ChildReport::kIdentity, errno);
    }
  }
  if (become_nobody && (syscall(SYS_setgroups, 0, nullptr) != 0 ||
                        syscall(SYS_setresgid, kNobody, kNobody, kNobody) != 0 ||
                        syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0)) {
    Report(plan, ChildReport::kIdentity, errno);
  }
}

bool RestrictCalls(ChildPlan& plan) {
  const SandboxPlan& sandbox = *plan.sandbox;
  DropCapabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const int abi = EnterLandlock(sandbox);
  Report(plan, ChildReport::kLandlock, abi > 0 ? 0 : errno, abi > 0 ? abi : 0);
  const bool files = sandbox.view_ready || abi >= landlock::kMinAbiWithoutMounts;
  if (sandbox.filter.empty()) return sandbox.allow_weak;
  const sock_fprog program{static_cast<uint16_t>(sandbox.filter.size()),
                           const_cast<sock_filter*>(sandbox.filter.data())};
  const long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
  Report(plan, ChildReport::kSeccomp, done == 0 ? 0 : errno);
  return sandbox.allow_weak || (files && done == 0);
}

}  // namespace cupel::os
