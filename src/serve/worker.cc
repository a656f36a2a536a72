// SPDX-License-Identifier: Apache-2.0
#include "serve/worker.h"

#include <fmt/format.h>

#include <chrono>

#include "base/clock.h"
#include "base/hash.h"
#include "os/fd.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;

/// The private folder of a worker: kernels, each in a folder of its own, and tasks by content.
class Desktop {
 public:
  explicit Desktop(os::TempDir folder) : folder_(std::move(folder)) {}

  Result<Unpacked> Lay(const Assignment& work) {
    Unpacked files;
    fs::path name = work.item.kernel.filename();
    if (!IsFileName(name.string())) {
      return Fail(ErrorCode::kInvalidArgument, "the kernel's path names no file");
    }
    if (name.extension() == ".py") name.replace_extension(".cu");  // extracted by the coordinator
    kernel_.reset();
    TRY_ASSIGN(kernel_, os::TempDir::Create(folder_.path()));
    files.kernel = kernel_->path() / name;
    TRY(os::WriteFileAtomically(files.kernel, work.source));
    TRY_ASSIGN(files.task, TaskOf(work.task));
    return files;
  }

 private:
  Result<fs::path> TaskOf(const Parcel& parcel) const {
    // PyTorch's child knows a task by its path, so that equal files must have equal paths.
    const fs::path place = folder_.path() / Sha256Hex(DumpJson(ToJson(parcel)));
    std::error_code error;
    if (fs::exists(place / parcel.name, error)) return place / parcel.name;
    fs::create_directory(place, error);
    return Unpack(parcel, place);
  }

  os::TempDir folder_;
  std::optional<os::TempDir> kernel_;
};

Status Work(WireEnd& wire, const OpenJudge& open) {
  TRY_ASSIGN(const ToWorker first, wire.Receive());
  const auto* setup = std::get_if<Setup>(&first);
  if (setup == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "the coordinator did not begin with a setup");
  }
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  Desktop desktop(std::move(folder));
  TRY_ASSIGN(const std::unique_ptr<Judge> judge, open(*setup, wire));
  TRY(wire.Send(judge->Describe()));
  for (;;) {
    TRY_ASSIGN(const ToWorker message, wire.Receive());
    const auto* work = std::get_if<Assignment>(&message);
    if (work == nullptr) {
      return Fail(ErrorCode::kInvalidArgument, "the coordinator answered what was not asked");
    }
    const auto start = std::chrono::steady_clock::now();
    wire.Show({work->ticket, "beginning", 0, 0});
    const auto files = desktop.Lay(*work);
    Result<Done> done = files ? judge->Do(*work, *files) : tl::unexpected<Error>(files.error());
    if (wire.is_over()) return Fail(ErrorCode::kCancelled, "the coordinator has gone");
    if (!done) {
      Done failed;
      failed.error = done.error();
      done = std::move(failed);
    }
    done->ticket = work->ticket;
    done->seconds = SecondsSince(start);
    wire.Show({});
    TRY(wire.Send(std::move(*done)));
  }
}

}  // namespace

Status RunWorker(const Hello& hello, const WireOptions& streams, const OpenJudge& open) {
  // Whatever a login shell left without a line's end stays on its own line.
  TRY(os::WriteAll(streams.out, "\n" + LineOf(hello) + "\n"));
  WireEnd wire(streams);
  Status status = Work(wire, open);
  if (status || wire.is_over()) return {};
  (void)wire.Send(Failed{status.error()});
  return status;
}

}  // namespace cupel::serve
