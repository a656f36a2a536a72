// The recorder child: reads its set-up, loads the candidate, and answers requests until the parent
// closes the channel. Uses only read() and write() on the channel, because the sandbox allows no
// other calls.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "os/sandbox.h"
#include "plan/codec.h"
#include "record/candidate.h"
#include "record/channel.h"
#include "record/clock.h"
#include "record/protocol.h"
#include "record/recorder.h"
#include "record/refuse.h"
#include "record/session.h"

namespace cupel::record {
namespace {

/// Loads the libraries that candidates link against, while files can still be opened.
void LoadSystemLibraries() {
  for (const char* name : {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1"}) {
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL) == nullptr) Refuse("internal", dlerror());
  }
}

template <typename T>
T OrRefuse(Result<T> result) {
  if (!result) Refuse("internal", result.error().ToString());
  return std::move(*result);
}

}  // namespace

int RecorderMain(int /*argc*/, char** /*argv*/) {
  const auto first = ReadMessage();
  if (!first) return 1;
  Setup setup = OrRefuse(SetupFromJson(*first));
  Session& session = CurrentSession();
  session.device = std::move(setup.device);
  session.images = setup.images;
  for (Kernel& kernel : setup.kernels) session.AddKernel(std::move(kernel));
  InstallCrashHandlers();
  DisableTimeStampCounter();
  // Otherwise the candidate's first printf examines stdout with a system call that the sandbox
  // refuses.
  if (std::setvbuf(stdout, nullptr, _IOFBF, BUFSIZ) != 0) return 1;
  LoadSystemLibraries();
  CheckSymbols(setup.shared_object);
  if (const auto status = os::EnterRecorderSandbox(); !status) {
    Refuse("internal", status.error().ToString());
  }
  // After this message the parent ignores "internal" errors, because hostile code could send them.
  if (!WriteMessage({{"loading", true}})) return 1;
  const Candidate candidate = Candidate::Load(setup.shared_object);
  session.CheckFatBinaries();
  if (const auto status = os::ForbidFiles(); !status) {
    Refuse("host_crash", status.error().ToString());
  }
  if (!WriteMessage({{"ready", true}})) return 1;
  while (const auto message = ReadMessage()) {
    if (message->contains("functions")) {
      if (!WriteMessage({{"functions", candidate.Functions()}})) return 1;
      continue;
    }
    const Request request = OrRefuse(RequestFromJson(*message));
    const PureRecording recording = RecordPure(candidate, request);
    Json answer{{"plan", plan::ToJson(recording.plan)},
                {"host_us", recording.host_us},
                {"recordings", recording.recordings},
                {"reads_values", recording.reads_values}};
    if (recording.first) answer["first"] = plan::ToJson(*recording.first);
    if (!WriteMessage(answer)) return 1;
  }
  // Do not run destructors: the candidate's are hostile code, too.
  _exit(0);
}

}  // namespace cupel::record
