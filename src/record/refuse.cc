// SPDX-License-Identifier: Apache-2.0
#include "record/refuse.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/json.h"
#include "os/frames.h"
#include "record/address_space.h"
#include "record/session.h"

namespace cupel::record {
namespace {

void WriteOrDie(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(os::kChildFd, data, size);
    if (written <= 0) _exit(3);
    data += written;
    size -= static_cast<size_t>(written);
  }
}

[[noreturn]] void Send(std::string_view code, std::string_view message, std::string_view where,
                       bool unsupported) {
  const Json json{{"refusal",
                   {{"code", code},
                    {"message", message.substr(0, 4000)},
                    {"where", where.substr(0, 1000)},
                    {"unsupported", unsupported}}}};
  const std::string payload = DumpJson(json);
  const auto length = static_cast<uint32_t>(payload.size());
  WriteOrDie(reinterpret_cast<const char*>(&length), sizeof length);
  WriteOrDie(payload.data(), payload.size());
  _exit(0);
}

// ---- signal handlers: no allocation, so the message is built in a fixed buffer ----

/// The texts must not contain characters that JSON escapes.
[[noreturn]] void SendFromHandler(const char* code, const char* message, const char* where) {
  std::array<char, 1024> frame;
  constexpr size_t kHead = sizeof(uint32_t);
  const auto end = fmt::format_to_n(
      frame.data() + kHead, frame.size() - kHead - 1,
      R"({{"refusal":{{"code":"{}","message":"{}","where":"{}","unsupported":false}}}})", code,
      message, where);
  const auto length = static_cast<uint32_t>(end.out - (frame.data() + kHead));
  std::memcpy(frame.data(), &length, kHead);
  WriteOrDie(frame.data(), kHead + length);
  _exit(0);
}

[[noreturn]] void OnFault(uintptr_t address) {
  std::array<char, 200> where{};
  const AddressSpace& memory = CurrentSession().memory;
  if (memory.InRange(address)) {
    const auto hit = memory.Find(address);
    if (hit && hit->allocation->origin == Origin::kArgument) {
      fmt::format_to_n(where.data(), where.size() - 1, "argument {} + {} bytes",
                       hit->allocation->argument, hit->offset);
    } else if (hit) {
      fmt::format_to_n(
          where.data(), where.size() - 1, "{} of {} bytes + {}",
          hit->allocation->origin == Origin::kSymbol ? "a device variable" : "device memory",
          hit->allocation->bytes, hit->offset);
    } else {
      std::strncpy(where.data(), "device memory that is no longer allocated", where.size() - 1);
    }
    std::array<char, 300> message{};
    fmt::format_to_n(message.data(), message.size() - 1,
                     "host code dereferenced device memory ({})", where.data());
    SendFromHandler("reads_device_memory", message.data(), where.data());
  }
  std::array<char, 200> message{};
  fmt::format_to_n(message.data(), message.size() - 1,
                   "host code crashed: SIGSEGV at address {:#x}{}", address,
                   address < 65536 ? " (a null pointer)" : "");
  SendFromHandler("host_crash", message.data(), "");
}

/// True if rdtsc or rdtscp trapped (clock.h), in the candidate's code or in the C library's clocks.
bool ReadsClock(const siginfo_t& info, const void* context) {
  if (info.si_code != SI_KERNEL) return false;  // caused by an address, not by an instruction
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): registers hold addresses as numbers
  const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  return code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9));
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  if (signal == SIGSYS) {
    std::array<char, 100> where{};
    fmt::format_to_n(where.data(), where.size() - 1, "syscall {}", info->si_syscall);
    SendFromHandler("host_privilege", "host code made a system call that is not permitted",
                    where.data());
  }
  if (signal == SIGSEGV && ReadsClock(*info, context)) {
    SendFromHandler("impure",
                    "host code reads a clock: the GPU work that it requests must depend only on "
                    "its arguments and the device",
                    "");
  }
  if (signal == SIGSEGV) OnFault(reinterpret_cast<uintptr_t>(info->si_addr));
  const char* message =
      "host code crashed: SIGABRT (abort, a failed assertion or an exception that "
      "was not caught)";
  if (signal == SIGFPE) message = "host code crashed: SIGFPE (an integer division by zero)";
  if (signal == SIGBUS) message = "host code crashed: SIGBUS";
  if (signal == SIGILL) message = "host code crashed: SIGILL (an illegal instruction)";
  SendFromHandler("host_crash", message, "");
}

}  // namespace

void Refuse(std::string_view code, std::string_view message, std::string_view where) {
  Send(code, message, where, false);
}

void RefuseUnsupported(std::string_view code, std::string_view message, std::string_view where) {
  Send(code, message, where, true);
}

void InstallCrashHandlers() {
  constexpr size_t kStackBytes = 128 << 10;
  stack_t stack{};
  stack.ss_sp =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kStackBytes;
  if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace cupel::record
