// Runs a program that is hostile text's plaything (nvcc on a candidate) or hostile code itself (the
// recorder): namespaces, Landlock, seccomp, rlimits, a deadline, an empty environment, no inherited
// descriptors. What the kernel does not grant is reported, never silently skipped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
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
  kProgram,   // any program with threads and devices; but nothing that reaches into the kernel or
              // into other processes
  kCompiler,  // nvcc and its children: files, pipes, fork/exec; no sockets, ptrace, mounts, keys
  kRecorder,  // hostile code, in two stages: from exec on no threads, processes or sockets; after
              // EnterRecorderSandbox() little but memory and read/write on open descriptors
};

/// Paths that do not exist are skipped in `readable`. Links on the way to them are recreated.
/// Started by root, the child becomes user nobody, who is made the owner of the folders in
/// `writable`; what is in `readable` must then be readable by all (the folders above it need not
/// be).
struct Confinement {
  SyscallProfile syscalls = SyscallProfile::kUnrestricted;
  std::vector<std::filesystem::path> readable;  // files and folders, also executable
  std::vector<std::filesystem::path> writable;
  std::vector<std::filesystem::path> devices;  // nodes and folders of nodes; absent ones skipped
  bool processes_view = false;                 // /proc, of the child's own processes
  bool network = false;
  /// Start the program although the kernel grants less than code that nobody trusts needs
  /// (SandboxReport::IsEnough). Else the spawn fails, before the program runs.
  bool allow_weak = false;
  // 0 means no limit.
  uint64_t address_space_bytes = 0;  // RLIMIT_AS
  uint64_t data_bytes = 0;           // RLIMIT_DATA
  uint64_t file_bytes = 0;           // RLIMIT_FSIZE, each file
  uint64_t cpu_seconds = 0;          // RLIMIT_CPU, each process
  uint64_t processes = 0;            // RLIMIT_NPROC inside the user namespace
};

/// What of a Confinement was in force; `missing` names each part that the kernel refused.
struct SandboxReport {
  bool user_namespace = false, mount_namespace = false, pid_namespace = false,
       network_namespace = false, landlock = false, seccomp = false;
  int landlock_abi = 0;
  std::vector<std::string> missing;

  /// The indispensable parts are in force: the filter of system calls, and a view of the files that
  /// holds what the Confinement lists and no more (docs/adr/0008-what-a-sandbox-needs.md).
  bool IsEnough() const;
};

/// The recorder's second stage, called by the child itself (started with kRecorder) once its own
/// set-up is done and before it loads the candidate. From here on allowed: memory (mmap, munmap,
/// mremap, mprotect, madvise, brk), read/write/close/lseek/poll/fstat, opening files for reading
/// (Landlock and the mount namespace leave only what the Confinement lists), futex, clocks,
/// sched_yield, getpid and gettid, sigaltstack and rt_sigreturn, tgkill to itself
/// (abort), exit. Everything else raises SIGSYS with the number in siginfo's si_syscall: install a
/// handler for it (and for SIGSEGV …) first, for sigaction is among what is refused; blocking
/// signals silently does nothing.
Status EnterRecorderSandbox();

/// The recorder's last stage, once the candidate is loaded: naming a file, sleeping, stopping and
/// making memory executable raise SIGSYS, too.
Status ForbidFiles();

/// "socket" for 41; "syscall 9999" for what has no name. Allocates: not for signal handlers.
std::string SyscallName(int number);

/// What this machine grants, found by starting a trivial child. For `cupel doctor`.
SandboxReport ProbeSandbox();

}  // namespace cupel::os
