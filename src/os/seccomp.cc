// The system calls that each profile allows, compiled by libseccomp in the parent.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <sstream>
#include <string_view>

#include "os/fd.h"
#include "os/sandbox.h"
#include "os/sandbox_plan.h"

namespace cupel::os {
namespace {

/// What any program needs to load, to compute, and to use its open descriptors.
constexpr std::string_view kCompute =
    "read readv pread64 preadv preadv2 write writev close lseek fstat newfstatat stat lstat "
    "statx access faccessat faccessat2 munmap mremap madvise brk futex "
    "futex_waitv clock_gettime clock_getres gettimeofday time nanosleep clock_nanosleep "
    "sched_yield sched_getaffinity getcpu getpid gettid getppid getuid geteuid getgid getegid "
    "rt_sigreturn sigaltstack exit exit_group set_robust_list rseq getrandom "
    "pause poll ppoll restart_syscall membarrier";

/// Memory of any protection.
constexpr std::string_view kAnyMemory = "mmap mprotect";

/// What starting a program needs in addition.
constexpr std::string_view kStart =
    "execve open openat rt_sigaction rt_sigprocmask rt_sigpending set_tid_address getpgrp "
    "getpgid getsid "
    "getgroups uname sysinfo getrusage times getrlimit readlink readlinkat getcwd getdents64 "
    "getdents dup dup2 dup3 fcntl select pselect6 close_range arch_prctl mincore msync "
    "getresuid getresgid get_robust_list pwrite64 pwritev capget umask fadvise64 tgkill "
    "seccomp statfs fstatfs";

/// What compilers, assemblers and linkers need: processes, pipes and files.
constexpr std::string_view kCompile =
    "fork vfork wait4 waitid pipe pipe2 creat rename renameat renameat2 unlink unlinkat mkdir "
    "mkdirat rmdir chmod fchmod fchmodat fchmodat2 link linkat symlink symlinkat utime utimes "
    "utimensat futimesat truncate ftruncate fallocate copy_file_range sendfile fsync fdatasync "
    "flock chdir fchdir setpgid setsid setrlimit getpriority sched_getparam sched_getscheduler "
    "sched_get_priority_max sched_get_priority_min";

/// What Python needs to find and load modules, and harmless questions about this process.
constexpr std::string_view kExamine =
    "readlink readlinkat getdents64 getdents getcwd statfs fstatfs fadvise64 dup dup2 dup3 select "
    "pselect6 rt_sigprocmask rt_sigpending uname sysinfo getrusage times getrlimit getpgrp "
    "getgroups getresuid getresgid";

/// These fail with EPERM, the usual refusal. Unknown calls fail with ENOSYS, for which callers have
/// fallbacks.
constexpr std::string_view kRefused =
    "socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg ptrace "
    "process_vm_readv process_vm_writev process_madvise kcmp mount umount2 pivot_root chroot "
    "open_tree move_mount fsopen fsmount mount_setattr unshare setns keyctl add_key "
    "request_key bpf perf_event_open io_uring_setup io_uring_enter io_uring_register "
    "userfaultfd personality kexec_load init_module finit_module delete_module "
    "open_by_handle_at name_to_handle_at pidfd_open pidfd_getfd pidfd_send_signal mknod "
    "mknodat chown fchown lchown fchownat setuid setgid setreuid setregid setresuid setresgid "
    "setgroups capset sethostname swapon swapoff reboot acct quotactl syslog modify_ldt iopl "
    "ioperm shmget msgget semget mq_open memfd_create tkill rt_sigqueueinfo rt_tgsigqueueinfo "
    "timer_create inotify_init1 fanotify_init";

/// Calls that a program with threads and devices never needs, but a sandbox escape would.
constexpr std::string_view kEscapeCalls =
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp mount umount2 pivot_root "
    "chroot open_tree move_mount fsopen fsmount fsconfig fspick mount_setattr unshare setns "
    "keyctl add_key request_key bpf perf_event_open io_uring_setup io_uring_enter "
    "io_uring_register userfaultfd personality kexec_load kexec_file_load init_module "
    "finit_module delete_module open_by_handle_at name_to_handle_at pidfd_getfd swapon swapoff "
    "reboot acct quotactl quotactl_fd syslog modify_ldt iopl ioperm settimeofday adjtimex "
    "clock_adjtime clock_settime sethostname setdomainname fanotify_init lookup_dcookie "
    "vhangup nfsservctl uselib ustat sysfs _sysctl";

constexpr uint64_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                     0x80;  // 0x80: time

/// The flags of open(2) that are 0 if a file is opened only for reading.
constexpr uint64_t kWriteFlags = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND;

/// A libseccomp context that remembers the first failure.
class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context_(seccomp_init(otherwise), seccomp_release) {
    if (context_ == nullptr) {
      error_ = ENOMEM;
      return;
    }
    Check(seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS));
    seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE,
                     2);  // a tree; older library versions make lists
  }

  /// `names` are separated by blanks.
  void Add(uint32_t action, std::string_view names) {
    std::istringstream words{std::string(names)};
    for (std::string name; words >> name;) Add(action, name.c_str(), {});
  }

  void Add(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> arguments) {
    if (error_ != 0) return;
    const int number = seccomp_syscall_resolve_name(name);
    if (number < 0) return;  // unknown to this architecture or library: the default action applies
    Check(seccomp_rule_add_array(context_.get(), action, number,
                                 static_cast<unsigned>(arguments.size()), arguments.begin()));
  }

  /// The requests by which programs find out whether a descriptor is a terminal, and harmless ones.
  void AddTerminalRequests() {
    for (const unsigned long request : {0x5401ul /* TCGETS */, 0x5413ul /* TIOCGWINSZ */,
                                        0x541bul /* FIONREAD */, 0x5451ul /* FIOCLEX */}) {
      Add(SCMP_ACT_ALLOW, "ioctl", {SCMP_A1(SCMP_CMP_EQ, request)});
    }
  }

  Result<std::vector<sock_filter>> Compile() {
    const Fd file(memfd_create("seccomp", MFD_CLOEXEC));
    if (!file) Check(-errno);
    if (error_ == 0) Check(seccomp_export_bpf(context_.get(), file.get()));
    if (error_ != 0) return Failure();
    const off_t size = lseek(file.get(), 0, SEEK_END);
    std::vector<sock_filter> program(static_cast<size_t>(size) / sizeof(sock_filter));
    if (pread(file.get(), program.data(), program.size() * sizeof(sock_filter), 0) != size) {
      error_ = EIO;
      return Failure();
    }
    return program;
  }

  Status Load() {
    if (error_ == 0) Check(seccomp_load(context_.get()));
    if (error_ != 0) return Failure();
    return {};
  }

 private:
  void Check(int code) {
    if (code < 0 && error_ == 0) error_ = -code;
  }
  tl::unexpected<Error> Failure() const {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot create a system call filter: {}", std::strerror(error_)));
  }

  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
};

Result<std::vector<sock_filter>> CompileProgramFilter() {
  Filter filter(SCMP_ACT_ALLOW);
  filter.Add(SCMP_ACT_ERRNO(EPERM), kEscapeCalls);
  for (uint64_t flag = 1; flag != 0; flag <<= 1) {
    if ((kNamespaceFlags & flag) == 0) continue;
    filter.Add(SCMP_ACT_ERRNO(EPERM), "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)});
  }
  // Sockets of some families bypass the network namespace (vsock). UNIX sockets can be created but
  // not connected: the CUDA driver looks for its daemons and continues without them.
  filter.Add(SCMP_ACT_ERRNO(EPERM), "socket", {SCMP_A0(SCMP_CMP_NE, AF_UNIX)});
  filter.Add(SCMP_ACT_ERRNO(ECONNREFUSED), "connect");
  filter.Add(SCMP_ACT_ERRNO(ECONNREFUSED), "sendto", {SCMP_A4(SCMP_CMP_NE, 0)});
  filter.Add(SCMP_ACT_ERRNO(EPERM), "sendmsg sendmmsg");
  // A filter cannot see clone3's flags. After ENOSYS, callers try clone(2).
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  return filter.Compile();
}

Result<std::vector<sock_filter>> CompileFilter(SyscallProfile profile) {
  Filter filter(SCMP_ACT_ERRNO(ENOSYS));
  filter.Add(SCMP_ACT_ALLOW, kCompute);
  filter.Add(SCMP_ACT_ALLOW, kAnyMemory);
  filter.Add(SCMP_ACT_ALLOW, kStart);
  filter.Add(SCMP_ACT_ERRNO(EPERM), kRefused);
  for (const unsigned long option :
       {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS,
        PR_GET_NO_NEW_PRIVS, PR_SET_VMA, PR_SET_TSC}) {
    filter.Add(SCMP_ACT_ALLOW, "prctl", {SCMP_A0(SCMP_CMP_EQ, option)});
  }
  filter.AddTerminalRequests();
  // Only for the process's own limits, which can be lowered but not raised.
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {SCMP_A0(SCMP_CMP_EQ, 0)});
  const bool is_tracer = profile == SyscallProfile::kTracer;
  if (profile == SyscallProfile::kCompiler) {
    filter.Add(SCMP_ACT_ALLOW, kCompile);
    filter.Add(SCMP_ACT_ALLOW, "clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaceFlags, 0)});
    filter.Add(SCMP_ACT_ERRNO(EPERM), "execveat", {});
  } else if (is_tracer) {
    filter.Add(SCMP_ACT_ALLOW, "fork wait4 waitid recvmsg setrlimit");
    filter.Add(SCMP_ACT_ALLOW, "clone",
               {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaceFlags | CLONE_THREAD | CLONE_VM, 0)});
    filter.Add(SCMP_ACT_ALLOW, "prctl", {SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)});  // TracerLock()
  } else {
    filter.Add(SCMP_ACT_ERRNO(EPERM), kCompile);
  }
  filter.Add(is_tracer ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM), "kill");
  return filter.Compile();
}

}  // namespace

Result<std::vector<sock_filter>> SyscallFilter(SyscallProfile profile) {
  static const auto program = CompileProgramFilter();
  static const auto compiler = CompileFilter(SyscallProfile::kCompiler);
  static const auto recorder = CompileFilter(SyscallProfile::kRecorder);
  static const auto tracer = CompileFilter(SyscallProfile::kTracer);
  if (profile == SyscallProfile::kProgram) return program;
  if (profile == SyscallProfile::kTracer) return tracer;
  return profile == SyscallProfile::kCompiler ? compiler : recorder;
}

Status EnterRecorderSandbox() {
  Filter filter(SCMP_ACT_TRAP);
  filter.Add(SCMP_ACT_ALLOW, kCompute);
  filter.Add(SCMP_ACT_ALLOW, kAnyMemory);
  filter.Add(SCMP_ACT_ALLOW, "openat", {SCMP_A2(SCMP_CMP_MASKED_EQ, kWriteFlags, O_RDONLY)});
  filter.Add(SCMP_ACT_ALLOW, "tgkill", {SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(getpid()))});
  // Pretends to succeed. The C library blocks all signals around clone(2), and a blocked SIGSYS
  // would kill the process without an explanation.
  filter.Add(SCMP_ACT_ERRNO(0), "rt_sigprocmask");
  // The C library's own two signals, which it sets up before it starts the first thread. They are
  // allowed so that the refusal names the thread and not sigaction.
  filter.Add(SCMP_ACT_ALLOW, "rt_sigaction", {SCMP_A0(SCMP_CMP_EQ, 32)});
  filter.Add(SCMP_ACT_ALLOW, "rt_sigaction", {SCMP_A0(SCMP_CMP_EQ, 33)});
  filter.Add(SCMP_ACT_ALLOW, "seccomp", {});  // for ForbidFiles(); a filter can only take away
  filter.Add(SCMP_ACT_ALLOW, "prctl", {SCMP_A0(SCMP_CMP_EQ, PR_SET_NO_NEW_PRIVS)});
  return filter.Load();
}

Status ForbidFiles() {
  Filter filter(SCMP_ACT_ALLOW);
  filter.Add(SCMP_ACT_TRAP,
             "openat open newfstatat stat lstat statx access faccessat faccessat2 seccomp prctl "
             "nanosleep clock_nanosleep pause");
  for (const char* call : {"mmap", "mprotect"}) {
    filter.Add(SCMP_ACT_TRAP, call, {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)});
  }
  // Only abort() remains allowed: a process that stops itself would make others wait.
  filter.Add(SCMP_ACT_TRAP, "tgkill", {SCMP_A2(SCMP_CMP_NE, SIGABRT)});
  return filter.Load();
}

Result<std::vector<std::byte>> TracerLock() {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  filter.Add(SCMP_ACT_ALLOW, kCompute);
  filter.Add(SCMP_ACT_ALLOW, kExamine);
  filter.Add(SCMP_ACT_ALLOW, "open", {SCMP_A1(SCMP_CMP_MASKED_EQ, kWriteFlags, O_RDONLY)});
  filter.Add(SCMP_ACT_ALLOW, "openat", {SCMP_A2(SCMP_CMP_MASKED_EQ, kWriteFlags, O_RDONLY)});
  const scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
  filter.Add(SCMP_ACT_ALLOW, "mprotect", {no_code});
  // Not shared memory without a file: RLIMIT_DATA does not count it.
  filter.Add(SCMP_ACT_ALLOW, "mmap",
             {no_code, SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_PRIVATE | MAP_SHARED, MAP_PRIVATE)});
  filter.Add(SCMP_ACT_ALLOW, "mmap", {no_code, SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0)});
  // Code of shared libraries. Files are read-only, so it is not the candidate's own.
  filter.Add(SCMP_ACT_ALLOW, "mmap",
             {SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC),
              SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0)});
  // Not F_SETOWN and F_SETSIG: they make the kernel send signals to other processes.
  for (const unsigned long command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL}) {
    filter.Add(SCMP_ACT_ALLOW, "fcntl", {SCMP_A1(SCMP_CMP_EQ, command)});
  }
  filter.AddTerminalRequests();
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0)});
  TRY_ASSIGN(const auto program, filter.Compile());
  const auto bytes = std::as_bytes(std::span(program));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

std::string SyscallName(int number) {
  std::unique_ptr<char, void (*)(void*)> name(
      seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number), std::free);
  return name != nullptr ? name.get() : fmt::format("syscall {}", number);
}

}  // namespace cupel::os
