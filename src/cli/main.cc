// The program's entry. The recorder, a sandboxed child process, is this same program, because it
// must contain the stand-in CUDA runtime that a candidate's host code links against. The GPU worker
// is this program too.
// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <thread>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "gpu/one_shot.h"
#include "gpu/worker.h"
#include "os/file_stamp.h"
#include "record/recorder.h"

namespace {

/// A token that the first Ctrl-C stops; the second one exits at once. A thread waits for the
/// signals instead of a handler, which could not request a stop safely. They are blocked in all
/// other threads, so call this before any of them starts. Children start with no signal blocked.
std::stop_token StopOnSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source source;
  try {
    std::thread([signals, source]() mutable {
      for (int signal = 0; sigwait(&signals, &signal) == 0;) {
        if (!source.request_stop()) std::_Exit(130);
      }
    }).detach();
  } catch (const std::system_error&) {
    // The system has no more threads: signals end the process at once.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    return {};
  }
  return source.get_token();
}

int StatusOf(const cupel::Error& error) {
  switch (error.code) {
    case cupel::ErrorCode::kUnsupported:
      return 3;
    case cupel::ErrorCode::kCancelled:
      return 130;
    default:
      return 2;
  }
}

/// If the command fails and has not written the file of --json, writes its error there. Otherwise
/// the file could still contain the result of an earlier command.
template <typename Command>
cupel::Result<int> RunWithJson(const Command& command) {
  if constexpr (requires { command.show.json; }) {
    const auto before = cupel::os::StampOf(command.show.json);
    auto result = cupel::cli::Run(command);
    if (!result && cupel::os::StampOf(command.show.json) == before) {
      const cupel::Error& error = result.error();
      (void)cupel::cli::WriteJson(command.show.json, {{"schema", cupel::cli::kErrorSchema},
                                                      {"status", StatusOf(error)},
                                                      {"error", error.message},
                                                      {"remedy", error.remedy}});
    }
    return result;
  } else {
    return cupel::cli::Run(command);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "recorder") {
    return cupel::record::RecorderMain(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == cupel::gpu::kWorkerCommand) {
    return cupel::gpu::WorkerMain(argc, argv);
  }
  if (argc > 1 && std::string_view(argv[1]) == cupel::gpu::kOneShotCommand) {
    return cupel::gpu::OneShotMain(argc, argv);
  }
  const std::stop_token stop = StopOnSignals();
  std::signal(SIGPIPE, SIG_IGN);

  auto parsed = cupel::cli::ParseCommandLine(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const auto run = [&stop](auto& command) {
    if constexpr (requires { command.common; }) command.common.stop = stop;
    return RunWithJson(command);
  };
  const auto result = std::visit(run, std::get<cupel::cli::Command>(parsed));
  // If the output could not be written (full disk, closed pipe), the command failed.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "cupel: cannot write to standard output: %s\n", std::strerror(errno));
    return 2;
  }
  if (result) return *result;
  const bool cancelled = result.error().code == cupel::ErrorCode::kCancelled;
  std::fprintf(stderr, "cupel: %s\n", cancelled ? "interrupted" : result.error().message.c_str());
  if (!result.error().remedy.empty()) {
    std::fprintf(stderr, "       %s\n", result.error().remedy.c_str());
  }
  return StatusOf(result.error());
}
