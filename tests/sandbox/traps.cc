// Enters the recorder's sandbox stages, then makes one attempt: `traps STAGE MODE [ARG]`. Exit
// status 0 means that the attempt worked. A SIGSYS handler prints the refused system call.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "os/sandbox.h"

namespace {

void OnSigsys(int, siginfo_t* info, void*) {
  char text[32];
  const int n = std::snprintf(text, sizeof text, "SIGSYS %d", info->si_syscall);
  (void)!write(1, text, static_cast<size_t>(n));
  _exit(3);
}

/// Does what the recorder and honest host code need.
bool Honest(const char* readable) {
  std::vector<std::string> grown;
  for (int i = 0; i < 100000; ++i) grown.push_back(std::string(100, 'x'));
  void* memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, 4096, PROT_READ) != 0) return false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  try {
    throw 1;
  } catch (int) {
  }
  std::FILE* file = std::fopen(readable, "r");
  if (file == nullptr) return false;
  char line[64];
  const bool read = std::fgets(line, sizeof line, file) != nullptr;
  std::fclose(file);
  return read;
}

void* Nothing(void*) { return nullptr; }

bool Attempt(const std::string& mode, const char* argument) {
  if (mode == "honest") return Honest(argument);
  if (mode == "open") return open(argument, O_RDONLY) >= 0;
  if (mode == "create") return open(argument, O_WRONLY | O_CREAT, 0600) >= 0;
  if (mode == "fork") return fork() >= 0;
  if (mode == "exec") return execl(argument, argument, nullptr) == 0;
  if (mode == "socket") return socket(AF_INET, SOCK_STREAM, 0) >= 0;
  if (mode == "kill") return kill(getppid(), 0) == 0;
  if (mode == "handler") return std::signal(SIGSYS, SIG_IGN) != SIG_ERR;
  if (mode == "abort") std::abort();
  if (mode == "stop") return raise(SIGSTOP) == 0;
  if (mode == "sleep") return usleep(1000) == 0;
  if (mode == "patch") {
    const auto page = reinterpret_cast<uintptr_t>(&Nothing) & ~uintptr_t{4095};
    return mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
  }
  pthread_t thread;
  if (mode == "thread") return pthread_create(&thread, nullptr, Nothing, nullptr) == 0;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  struct sigaction action{};
  action.sa_sigaction = OnSigsys;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  const int stage = std::atoi(argv[1]);
  for (const auto enter : {cupel::os::EnterRecorderSandbox, cupel::os::ForbidFiles}) {
    if (stage < (enter == cupel::os::ForbidFiles ? 3 : 2)) break;
    if (const auto entered = enter(); !entered) {
      std::puts(entered.error().message.c_str());
      return 4;
    }
  }
  return Attempt(argv[2], argc > 3 ? argv[3] : "") ? 0 : 1;
}
