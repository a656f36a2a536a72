// SPDX-License-Identifier: Apache-2.0
#include "build/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "base/demangle.h"
#include "base/name_some.h"
#include "build/is_one_of.h"
#include "build/x86.h"

namespace cupel::build {
namespace {

using std::string_view;

template <typename List>
bool BeginsWithAny(const List& prefixes, string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](string_view prefix) { return name.starts_with(prefix); });
}

// ---- Functions that a candidate's host code must not use: the audit rejects them by name. ----

constexpr auto kProcesses = std::to_array<string_view>({"fork",
                                                        "_Fork",
                                                        "vfork",
                                                        "clone",
                                                        "clone3",
                                                        "execv",
                                                        "execve",
                                                        "execvp",
                                                        "execvpe",
                                                        "execl",
                                                        "execlp",
                                                        "execle",
                                                        "fexecve",
                                                        "execveat",
                                                        "system",
                                                        "popen",
                                                        "posix_spawn",
                                                        "daemon",
                                                        "posix_spawnp",
                                                        "kill",
                                                        "killpg",
                                                        "tgkill",
                                                        "pthread_kill",
                                                        "sigqueue",
                                                        "ptrace",
                                                        "waitpid",
                                                        "wait",
                                                        "wait4",
                                                        "process_vm_readv",
                                                        "setns",
                                                        "unshare",
                                                        "setuid",
                                                        "setgid",
                                                        "chroot",
                                                        "process_vm_writev",
                                                        "mount",
                                                        "pidfd_open"});
constexpr auto kThreads = std::to_array<string_view>({"pthread_create", "thrd_create"});
constexpr auto kThreadPrefixes = std::to_array<string_view>(
    {"_ZNSt6thread15_M_start_thread", "_ZNSt6thread6detach", "GOMP_parallel"});
constexpr auto kSockets = std::to_array<string_view>(
    {"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "recvfrom",
     "sendmsg", "recvmsg", "getaddrinfo", "gethostbyname", "gethostbyname_r"});
constexpr auto kFiles = std::to_array<string_view>(
    {"open",     "open64",    "openat",       "openat64",      "creat",    "creat64",
     "fopen",    "fopen64",   "freopen",      "freopen64",     "tmpfile",  "tmpfile64",
     "mkstemp",  "mkstemp64", "mkdtemp",      "opendir",       "scandir",  "nftw",
     "ftw",      "glob",      "remove",       "unlink",        "unlinkat", "rename",
     "renameat", "mkdir",     "rmdir",        "symlink",       "link",     "chmod",
     "fchmod",   "chown",     "truncate",     "truncate64",    "shm_open", "memfd_create",
     "access",   "faccessat", "euidaccess",   "stat",          "stat64",   "lstat",
     "lstat64",  "fstat",     "fstat64",      "fstatat",       "statx",    "statfs",
     "readlink", "realpath",  "inotify_init", "inotify_init1", "mkfifo",   "mknod"});
constexpr auto kFilePrefixes = std::to_array<string_view>(
    {"_ZNSt14basic_ifstream", "_ZNSt14basic_ofstream", "_ZNSt13basic_fstream",
     "_ZNSt13basic_filebuf", "_ZNSt10filesystem", "_ZNKSt10filesystem"});
constexpr auto kLoading =
    std::to_array<string_view>({"dlopen", "dlmopen", "dlsym", "dlvsym", "mprotect", "pkey_mprotect",
                                "makecontext", "personality"});
constexpr auto kCalls =
    std::to_array<string_view>({"syscall", "prctl", "arch_prctl", "ioctl", "seccomp"});
constexpr auto kSignals = std::to_array<string_view>(
    {"sigaction", "__sigaction", "signal", "bsd_signal", "sysv_signal", "__sysv_signal",
     "sigaltstack", "sigprocmask", "pthread_sigmask", "timer_create", "setitimer", "alarm"});

// ---- Functions whose results change from call to call, process to process or machine to machine:
// a plan must not depend on them. ----

constexpr auto kClocks = std::to_array<string_view>(
    {"time", "clock", "clock_gettime", "gettimeofday", "timespec_get", "ftime", "times",
     "getrusage", "_ZNSt6chrono3_V212system_clock3nowEv", "_ZNSt6chrono3_V212steady_clock3nowEv"});
constexpr auto kEntropy = std::to_array<string_view>(
    {"getrandom", "getentropy", "arc4random", "arc4random_buf", "arc4random_uniform", "getauxval"});
constexpr auto kEntropyPrefixes = std::to_array<string_view>({"_ZNSt13random_device9_M_getval"});
constexpr auto kIdentities = std::to_array<string_view>(
    {// the process and its user
     "getpid", "getppid", "gettid", "getpgid", "getpgrp", "getsid", "getuid", "geteuid", "getgid",
     "getegid", "getlogin", "getlogin_r", "cuserid", "getpwuid", "getpwuid_r", "getpwnam", "getcwd",
     "get_current_dir_name", "isatty", "ttyname", "ttyname_r",
     // the machine
     "sched_getcpu", "getcpu", "sched_getaffinity", "pthread_getaffinity_np", "get_nprocs",
     "get_nprocs_conf", "get_phys_pages", "get_avphys_pages", "sysinfo", "sysconf", "getrlimit",
     "getrlimit64", "prlimit", "prlimit64", "gethostname", "getdomainname", "gethostid", "uname",
     "_ZNSt6thread20hardware_concurrencyEv",
     // the program
     "program_invocation_name", "program_invocation_short_name", "__progname", "__progname_full",
     "dladdr", "dladdr1", "dlinfo", "dl_iterate_phdr"});
/// Environment variables, and functions that depend on them: languages and time zones.
constexpr auto kEnvironment = std::to_array<string_view>({"getenv",
                                                          "secure_getenv",
                                                          "__secure_getenv",
                                                          "environ",
                                                          "__environ",
                                                          "_environ",
                                                          "wordexp",
                                                          "__libc_stack_end",
                                                          "__libc_argv",
                                                          "_dl_argv",
                                                          "_rtld_global",
                                                          "_rtld_global_ro",
                                                          "_r_debug",
                                                          "setlocale",
                                                          "newlocale",
                                                          "_ZNSt6localeC1EPKc",
                                                          "_ZNSt6localeC2EPKc",
                                                          "tzset",
                                                          "tzname",
                                                          "timezone",
                                                          "daylight",
                                                          "localtime",
                                                          "localtime_r",
                                                          "mktime"});

// ---- Functions that it may use. ----

/// Functions that the recorder replaces, and those of the compiler and the C++ library.
constexpr auto kAllowedPrefixes =
    std::to_array<string_view>({"cuda", "__cuda", "cublas", "cupel_rt_", "_ZN", "_ZS", "_ZT", "_ZK",
                                "__cxa_", "_Unwind_", "__gxx_", "__once", "_Zna", "_Znw", "_Zda",
                                "_Zdl", "__dynamic_cast", "__gcc_", "__stack_chk_"});
constexpr auto kAllowed = std::to_array<string_view>(
    {// memory and text
     "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign", "memcpy",
     "memmove", "memset", "memcmp", "memchr", "memrchr", "strlen", "strnlen", "strcmp", "strncmp",
     "strcasecmp", "strcpy", "strncpy", "strcat", "strncat", "strchr", "strrchr", "strstr",
     "strspn", "strcspn", "strpbrk", "strtok", "strtok_r", "strdup", "strtol", "strtoll", "strtoul",
     "strtoull", "strtod", "strtof", "strtold", "atoi", "atol", "atoll", "atof", "qsort", "bsearch",
     "abs", "labs", "llabs", "div", "ldiv", "toupper", "tolower", "isalpha", "isdigit", "isspace",
     "isalnum", "wcslen", "wmemcpy", "wmemset", "__ctype_b_loc", "__ctype_tolower_loc",
     "__ctype_toupper_loc", "strerror", "strerror_r", "__xpg_strerror_r", "__errno_location",
     // output
     "printf", "fprintf", "sprintf", "snprintf", "vprintf", "vfprintf", "vsprintf", "vsnprintf",
     "puts", "putchar", "putc", "fputs", "fputc", "fwrite", "fflush", "perror", "stdout", "stderr",
     "asprintf", "vasprintf", "sscanf", "__isoc99_sscanf", "__isoc23_sscanf",
     // control
     "abort", "exit", "_exit", "_Exit", "quick_exit", "atexit", "__assert_fail", "setjmp",
     "_setjmp", "__sigsetjmp", "longjmp", "raise", "sched_yield", "pthread_self", "pthread_once",
     "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_init", "pthread_mutex_destroy",
     "pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_rwlock_unlock",
     "pthread_key_create", "pthread_getspecific", "pthread_setspecific", "pthread_cond_broadcast",
     "pthread_cond_signal", "pthread_cond_wait", "__tls_get_addr", "__isoc23_strtol",
     "__isoc23_strtoll", "__isoc23_strtoul", "__isoc23_strtoull",
     // the compiler's arithmetic on 128 bits
     "__udivti3", "__umodti3", "__divti3", "__modti3"});
/// Weak symbols that the compiler and the C++ library declare.
constexpr auto kWeak = std::to_array<string_view>({"__gmon_start__", "__pthread_key_create"});
constexpr auto kWeakPrefixes = std::to_array<string_view>({"_ITM_", "__cxa_", "_Unwind_"});
/// With _FORTIFY_SOURCE, some functions have another name.
constexpr string_view kFortified = "__";

constexpr auto kMathStems = std::to_array<string_view>(
    {"acos",      "asin",    "atan",      "cbrt",      "ceil",   "copysign", "cos",
     "erf",       "exp",     "fabs",      "fdim",      "floor",  "fma",      "fmax",
     "fmin",      "fmod",    "frexp",     "hypot",     "ilogb",  "ldexp",    "lgamma",
     "llrint",    "llround", "log",       "lrint",     "lround", "modf",     "nearbyint",
     "nextafter", "pow",     "remainder", "remquo",    "rint",   "round",    "scalb",
     "sin",       "sqrt",    "tan",       "tgamma",    "trunc",  "nan",      "__fpclassify",
     "__isnan",   "__isinf", "__finite",  "__signbit", "__exp",  "__log",    "__pow"});

// ---- Allowed, but worth a note. ----

struct Remark {
  string_view name, text;
};
constexpr auto kRemarks = std::to_array<Remark>({{"sleep", "sleeps (sleep)"},
                                                 {"usleep", "sleeps (usleep)"},
                                                 {"nanosleep", "sleeps (nanosleep)"},
                                                 {"rand", "draws random numbers (rand)"},
                                                 {"random", "draws random numbers (random)"},
                                                 {"mmap", "maps memory (mmap)"},
                                                 {"mmap64", "maps memory (mmap)"},
                                                 {"read", "reads from descriptors (read)"},
                                                 {"write", "writes to descriptors (write)"}});

bool IsMath(string_view name) {
  if (name.ends_with("f") || name.ends_with("l")) {
    if (IsOneOf(kMathStems, name.substr(0, name.size() - 1))) return true;
  }
  return BeginsWithAny(kMathStems, name) && name.size() <= 16;
}

/// A function of the CUDA driver: the recorder replaces them, or refuses the candidate.
bool IsDriver(string_view name) {
  return name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z';
}

bool IsHarmless(string_view name) {
  if (IsDriver(name)) return true;
  if (IsOneOf(kAllowed, name) || BeginsWithAny(kAllowedPrefixes, name) || IsMath(name)) return true;
  if (name.starts_with(kFortified) && name.ends_with("_chk")) {
    return IsOneOf(kAllowed, name.substr(2, name.size() - 6));
  }
  return false;
}

/// What the forbidden function `name` does, or null if it is not forbidden.
const char* Forbidden(string_view name) {
  if (IsOneOf(kProcesses, name)) return "starts or controls processes";
  if (IsOneOf(kThreads, name) || BeginsWithAny(kThreadPrefixes, name)) return "starts threads";
  if (IsOneOf(kSockets, name)) return "uses the network";
  if (IsOneOf(kFiles, name) || BeginsWithAny(kFilePrefixes, name)) return "uses files";
  if (IsOneOf(kLoading, name)) return "loads or modifies code";
  if (IsOneOf(kCalls, name)) return "makes its own system calls";
  if (IsOneOf(kSignals, name)) return "handles signals";
  return nullptr;
}

/// What the impure function `name` does, or null if it is pure.
const char* Changing(string_view name) {
  if (IsOneOf(kClocks, name)) return "reads a clock";
  if (IsOneOf(kEntropy, name) || BeginsWithAny(kEntropyPrefixes, name))
    return "reads the system's entropy";
  if (IsOneOf(kIdentities, name)) return "queries the process or the machine";
  if (IsOneOf(kEnvironment, name)) return "reads environment variables";
  return nullptr;
}

Audit::Objection ImpureObjection(string_view does, string_view what) {
  return {"impure",
          fmt::format("host code {} ({}): the GPU work that it launches must depend only on its "
                      "arguments and the device",
                      does, what),
          std::string(what)};
}

std::string Readable(string_view name) { return Demangle(std::string(name)).substr(0, 120); }

std::optional<Audit::Objection> ObjectionTo(const std::string& name) {
  if (const char* purpose = Forbidden(name); purpose != nullptr) {
    return Audit::Objection{
        "host_privilege",
        fmt::format("host code {} ({}): it may only use memory, the CUDA runtime and standard "
                    "output, not files, sockets, threads or processes",
                    purpose, Readable(name)),
        Readable(name)};
  }
  if (const char* changing = Changing(name); changing != nullptr) {
    return ImpureObjection(changing, Readable(name));
  }
  return std::nullopt;
}

/// Weak symbols would let a candidate distinguish the recorder from a process of PyTorch.
void AuditWeakSymbols(const SharedObject& object, Audit& audit) {
  for (const std::string& name : object.weak) {
    if (audit.objection) return;
    if (IsOneOf(kWeak, name) || BeginsWithAny(kWeakPrefixes, name)) continue;
    audit.objection = ObjectionTo(name);
    if (audit.objection || IsOneOf(kAllowed, name)) continue;
    audit.objection = ImpureObjection("checks whether a symbol exists", Readable(name));
  }
}

void AuditSymbols(const SharedObject& object, Audit& audit) {
  std::vector<std::string> unknown;
  for (const std::string& name : object.undefined) {
    const auto objection = ObjectionTo(name);
    if (!audit.objection) audit.objection = objection;
    const auto* remark = std::find_if(kRemarks.begin(), kRemarks.end(),
                                      [&](const Remark& r) { return r.name == name; });
    if (remark != kRemarks.end()) {
      audit.notes.push_back(fmt::format("host code {}", remark->text));
    } else if (!objection && !IsHarmless(name)) {
      unknown.push_back(Readable(name));
    }
  }
  if (unknown.empty()) return;
  audit.notes.push_back("host code uses functions that are not on the audit's list: " +
                        NameSome(unknown, 5));
}

void AuditCode(const SharedObject& object, Audit& audit) {
  std::set<string_view> impure;
  size_t undecoded = 0;
  for (const SharedObject::Code& code : object.code) {
    const SystemCalls calls = FindSystemCalls(code.bytes);
    impure.insert(calls.impure.begin(), calls.impure.end());
    undecoded += calls.undecoded;
    if (calls.undecoded > 0) {
      audit.notes.push_back(
          fmt::format("host code contains bytes in {} that are not instructions: they may hide "
                      "system calls, which the sandbox blocks",
                      code.section.substr(0, 40)));
    }
    if (calls.offsets.empty() || audit.objection) continue;
    audit.objection = {"host_privilege",
                       fmt::format("host code contains a raw system call instruction ({} + {:#x})",
                                   code.section.substr(0, 40), calls.offsets[0]),
                       code.section.substr(0, 40)};
  }
  if (impure.empty()) return;
  const std::string names = fmt::format("{}", fmt::join(impure, ", "));
  if (undecoded > 0) {  // after bytes that cannot be decoded, the names may be wrong
    audit.notes.push_back(fmt::format(
        "host code may contain instructions whose results change from call to call ({})", names));
  } else if (!audit.objection) {
    audit.objection =
        ImpureObjection("contains instructions whose results change from call to call", names);
  }
}

void AuditLayout(const SharedObject& object, size_t files, Audit& audit) {
  const char* what = nullptr;
  if (object.stack == SharedObject::Stack::kExecutable) {
    what = "requests an executable stack";
  } else if (object.stack == SharedObject::Stack::kUnmarked) {
    what = "does not mark its stack as non-executable";
  } else if (object.writable_code) {
    what = "has memory that is both writable and executable";
  } else if (object.text_relocations) {
    what = "requires the loader to write into its code";
  }
  if (what != nullptr && !audit.objection) {
    audit.objection = {
        "unsafe_object",
        fmt::format("the built object {}, which compilers do not produce from C++", what), ""};
  }
  // One of the compiler, and for each file one that registers kernels and one for static objects.
  if (object.constructors > 1 + 2 * files) {
    audit.notes.push_back(fmt::format("runs {} functions when it is loaded", object.constructors));
  }
  if (object.resolvers > 0) {
    audit.notes.push_back(
        fmt::format("selects {} of its functions with code that runs while it is loaded (IFUNC)",
                    object.resolvers));
  }
}

}  // namespace

Audit AuditObject(const SharedObject& object, size_t files) {
  Audit audit;
  AuditSymbols(object, audit);
  AuditWeakSymbols(object, audit);
  AuditCode(object, audit);
  AuditLayout(object, files, audit);
  return audit;
}

}  // namespace cupel::build
