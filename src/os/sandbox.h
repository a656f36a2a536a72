// Runs a program that reads hostile text (nvcc on a candidate) or runs hostile code (recorder).
// Uses namespaces, Landlock, seccomp, rlimits, a deadline, an empty environment and no inherited
// descriptors. Parts that the kernel does not grant are reported, never skipped silently.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/process.h"

namespace cupel::os {

enum class SyscallProfile {
  kUnrestricted,  // trusted children: the oracle
  kProgram,       // any program with threads and devices, without calls that change the kernel or
                  // other processes
  kCompiler,  // nvcc and its children: files, pipes, fork/exec; no sockets, ptrace, mounts, keys
  kRecorder,  // hostile code, in two stages: from exec on no threads, processes or sockets; after
              // EnterRecorderSandbox() little more than memory and read/write on open descriptors
  kTracer,    // trusted Python that forks processes for hostile Python: as kRecorder's first stage,
              // and fork, wait and kill. A forked process applies TracerLock() to itself
};

/// What a sandboxed child may use. Paths in `readable` that do not exist are skipped. Symbolic
/// links on the way to the paths are recreated. If root starts the child, it becomes the user
/// nobody, who then owns the folders in `writable`. In that case the paths in `readable` must be
/// readable by all users; the folders above them need not be.
struct Confinement {
  SyscallProfile syscalls = SyscallProfile::kUnrestricted;
  std::vector<std::filesystem::path> readable;  // files and folders, also executable
  std::vector<std::filesystem::path> writable;
  std::vector<std::filesystem::path> devices;  // nodes, or folders of nodes; missing ones skipped
  bool processes_view = false;                 // /proc, with the child's own processes
  bool network = false;
  /// Start the program even if the sandbox is too weak for untrusted code
  /// (SandboxReport::IsEnough). Otherwise a weak sandbox makes the spawn fail before the program
  /// runs.
  bool allow_weak = false;
  // 0 means no limit.
  uint64_t address_space_bytes = 0;  // RLIMIT_AS
  uint64_t data_bytes = 0;           // RLIMIT_DATA
  uint64_t file_bytes = 0;           // RLIMIT_FSIZE, each file
  uint64_t cpu_seconds = 0;          // RLIMIT_CPU, each process
  uint64_t processes = 0;            // RLIMIT_NPROC inside the user namespace
};

/// Which parts of a Confinement were in force. `missing` lists each part that the kernel refused.
struct SandboxReport {
  bool user_namespace = false, mount_namespace = false, pid_namespace = false,
       network_namespace = false, landlock = false, seccomp = false;
  int landlock_abi = 0;
  std::vector<std::string> missing;

  /// True if the required parts are in force: the system call filter, and access to only the files
  /// that the Confinement lists (docs/adr/0008-what-a-sandbox-needs.md).
  bool IsEnough() const;
};

/// The recorder's second stage. The child (started with kRecorder) calls it after its own set-up
/// and before it loads the candidate. Afterwards these calls are allowed: memory (mmap, munmap,
/// mremap, mprotect, madvise, brk), read/write/close/lseek/poll/fstat, opening files for reading
/// (Landlock and the mount namespace allow only what the Confinement lists), futex, clocks,
/// sched_yield, getpid and gettid, sigaltstack and rt_sigreturn, tgkill to itself (abort), exit.
/// Every other call raises SIGSYS, with the number in siginfo's si_syscall. Install a handler for
/// it (and for SIGSEGV …) first, because sigaction is refused afterwards. Blocking signals silently
/// does nothing.
Status EnterRecorderSandbox();

/// The recorder's last stage, after it has loaded the candidate. Now opening or examining a file by
/// its name, sleeping, stopping and making memory executable raise SIGSYS, too.
Status ForbidFiles();

/// The filter (an array of sock_filter) that a process forked from one of kTracer applies to itself
/// before it runs hostile Python: prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER). Afterwards these
/// calls are allowed: private memory (executable memory only from files),
/// read/write/close/lseek/poll/fstat on open descriptors, opening and examining files for reading,
/// futex, clocks, sleeping, questions about this process, exit. Every other call fails with EPERM,
/// which Python raises as PermissionError or, for a thread, RuntimeError. abort() ends with
/// SIGSEGV, because no signal can be sent, not even to the process itself.
Result<std::vector<std::byte>> TracerLock();

/// "socket" for 41; "syscall 9999" for a number without a name. Allocates, so do not call it in
/// signal handlers.
std::string SyscallName(int number);

/// What this machine grants, measured by starting a trivial child. For `cupel doctor`.
SandboxReport ProbeSandbox();

}  // namespace cupel::os
