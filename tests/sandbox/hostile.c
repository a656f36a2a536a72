/* Attacks on a sandbox, one per mode: `hostile MODE [ARG]`. Exit status 0 means that the attack
   worked, 1 that it was refused (errno's name on stdout). Statically linked, so that it runs if no
   other file is visible. SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int Answer(int worked) {
  printf("%s\n", worked ? "worked" : strerrorname_np(errno));
  fflush(stdout);
  return worked ? 0 : 1;
}

static int Connect(int family, const char* path) {
  const int fd = socket(family, SOCK_STREAM, 0);
  if (fd < 0) return 0;
  if (path == NULL) return 1;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  return connect(fd, (struct sockaddr*)&address, sizeof address) == 0;
}

static int ForkBomb(void) {
  int children = 0;
  for (; children < 2000; ++children) {
    const pid_t pid = fork();
    if (pid < 0) break;
    if (pid == 0) {
      pause();
      _exit(0);
    }
  }
  printf("%d children\n", children);
  fflush(stdout);
  return children == 2000 ? 0 : 1;
}

static int MemoryBomb(void) {
  size_t megabytes = 0;
  for (; megabytes < 1 << 20; ++megabytes) {
    char* p = malloc(1 << 20);
    if (p == NULL) break;
    memset(p, 1, 1 << 20);
  }
  printf("%zu MiB\n", megabytes);
  fflush(stdout);
  return megabytes == 1 << 20 ? 0 : 1;
}

static int FillDisk(const char* path) {
  static char block[1 << 20];
  signal(SIGXFSZ, SIG_IGN);
  const int fd = open(path, O_CREAT | O_WRONLY, 0644);
  if (fd < 0) return Answer(0);
  for (int i = 0; i < 4096; ++i) {
    if (write(fd, block, sizeof block) != sizeof block) return Answer(0);
  }
  return Answer(1);
}

static int Descriptors(void) {
  int found = 0;
  for (int fd = 3; fd < 1024; ++fd) found += fcntl(fd, F_GETFD) >= 0;
  printf("%d\n", found);
  fflush(stdout);
  return found > 0 ? 0 : 1;
}

static int Daemon(void) {
  if (fork() != 0) return 0;
  setsid();
  if (fork() != 0) _exit(0);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (;;) pause();
}

/* Starts twelve daemons. Each starts the next and leaves it as an orphan. */
static int Daemons(void) {
  for (int i = 0; i < 12; ++i) {
    if (fork() != 0) return 0;
    setsid();
    for (int fd = 0; fd < 3; ++fd) close(fd);
    if (i % 3 == 2 && fork() == 0) {
      for (;;) pause();
    }
  }
  for (;;) pause();
}

static int KillAll(void) {
  /* Kills every process that may be signalled, except this one. */
  const int killed = kill(-1, SIGKILL);
  return Answer(killed == 0);
}

static int Mount(void) {
  if (mount("none", "/", NULL, MS_REMOUNT, NULL) == 0) return Answer(1);
  if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0) return Answer(1);
  return Answer(umount2("/usr", MNT_DETACH) == 0);
}

static int Escape(void) {
  /* A new user namespace would restore all capabilities. */
  if (unshare(CLONE_NEWUSER) == 0) return Answer(1);
  if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0) return Answer(1);
  if (setuid(0) == 0 && getuid() == 0) return Answer(1);
  return Answer(chroot("/tmp") == 0);
}

static int Exec(const char* path) {
  char* const argv[] = {(char*)path, NULL};
  execv(path, argv);
  return Answer(0);
}

static int OtherCalls(void) {
  const long calls[] = {SYS_bpf,         SYS_keyctl,         SYS_perf_event_open,
                        SYS_userfaultfd, SYS_io_uring_setup, SYS_process_vm_readv,
                        SYS_setns,       SYS_personality,    SYS_memfd_create,
                        SYS_pidfd_open,  SYS_add_key,        SYS_reboot,
                        SYS_init_module};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    errno = 0;
    if (syscall(calls[i], 0, 0, 0, 0, 0, 0) >= 0 || (errno != EPERM && errno != ENOSYS)) {
      printf("syscall %ld: ", calls[i]);
      return Answer(1);
    }
  }
  errno = EPERM;
  return Answer(0);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const char* arg = argc > 2 ? argv[2] : "";
  if (!strcmp(mode, "read")) return Answer(open(arg, O_RDONLY) >= 0);
  if (!strcmp(mode, "list")) return Answer(open(arg, O_RDONLY | O_DIRECTORY) >= 0);
  if (!strcmp(mode, "write")) return Answer(open(arg, O_WRONLY | O_CREAT | O_TRUNC, 0644) >= 0);
  if (!strcmp(mode, "chmod")) return Answer(chmod(arg, 0777) == 0);
  if (!strcmp(mode, "link"))
    return Answer(symlink("/etc/passwd", arg) == 0 && open(arg, O_RDONLY) >= 0);
  if (!strcmp(mode, "inet")) return Answer(Connect(AF_INET, NULL));
  if (!strcmp(mode, "unix")) return Answer(Connect(AF_UNIX, arg));
  if (!strcmp(mode, "forkbomb")) return ForkBomb();
  if (!strcmp(mode, "memory")) return MemoryBomb();
  if (!strcmp(mode, "disk")) return FillDisk(arg);
  if (!strcmp(mode, "ptrace")) return Answer(ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0);
  if (!strcmp(mode, "kill")) return Answer(kill(atoi(arg), SIGKILL) == 0);
  if (!strcmp(mode, "killall")) return KillAll();
  if (!strcmp(mode, "mount")) return Mount();
  if (!strcmp(mode, "escape")) return Escape();
  if (!strcmp(mode, "exec")) return Exec(arg);
  if (!strcmp(mode, "calls")) return OtherCalls();
  if (!strcmp(mode, "fds")) return Descriptors();
  if (!strcmp(mode, "daemon")) return Daemon();
  if (!strcmp(mode, "daemons")) return Daemons();
  if (!strcmp(mode, "environment")) return Answer(environ[0] != NULL);
  if (!strcmp(mode, "core")) abort();
  if (!strcmp(mode, "uid")) return printf("%d\n", getuid()) > 0 ? 0 : 1;
  if (!strcmp(mode, "sleep")) return pause();
  if (!strcmp(mode, "loop")) {
    for (volatile int i = 0;; ++i) {
    }
  }
  return 2;
}
