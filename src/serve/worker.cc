// SPDX-License-Identifier: Apache-2.0
#include "serve/worker.h"

#include <fmt/format.h>

#include <chrono>

#include "base/clock.h"
#include "base/hash.h"
#include "build/sources.h"
#include "os/fd.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::serve {
namespace {

namespace fs = std::filesystem;

/// A file with such a name is never a bundle of several, whatever its text is.
bool IsOneFile(const fs::path& name) {
  return name.extension() == ".cu" || name.extension() == ".py";
}

/// The private folder of a worker: each kernel in its own folder, and tasks by hash.
class WorkFolder {
 public:
  explicit WorkFolder(os::TempDir folder) : folder_(std::move(folder)) {}

  Result<Unpacked> WriteFiles(const Assignment& work) {
    Unpacked files;
    fs::path name = work.item.kernel.filename();
    if (!IsFileName(name.string())) {
      return Fail(ErrorCode::kInvalidArgument, "the kernel's path has no file name");
    }
    if (!IsOneFile(name) && build::IsBundle(work.source)) name += build::kBundleSuffix;
    kernel_.reset();
    TRY_ASSIGN(kernel_, os::TempDir::Create(folder_.path()));
    files.kernel = kernel_->path() / name;
    TRY(os::WriteFileAtomically(files.kernel, work.source));
    TRY_ASSIGN(files.task, TaskOf(work.task));
    return files;
  }

 private:
  Result<fs::path> TaskOf(const TaskBundle& bundle) const {
    // The PyTorch child identifies a task by its path, so equal files must have equal paths.
    const fs::path target = folder_.path() / Sha256Hex(DumpJson(ToJson(bundle)));
    std::error_code error;
    if (fs::exists(target / bundle.name, error)) return target / bundle.name;
    fs::create_directory(target, error);
    return Unpack(bundle, target);
  }

  os::TempDir folder_;
  std::optional<os::TempDir> kernel_;
};

Status Work(WireEnd& wire, const OpenJudge& open) {
  TRY_ASSIGN(const ToWorker first, wire.Receive());
  const auto* setup = std::get_if<Setup>(&first);
  if (setup == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "the coordinator's first message is not a setup");
  }
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  WorkFolder work_folder(std::move(folder));
  TRY_ASSIGN(const std::unique_ptr<Judge> judge, open(*setup, wire));
  TRY(wire.Send(judge->Describe()));
  for (;;) {
    TRY_ASSIGN(const ToWorker message, wire.Receive());
    const auto* work = std::get_if<Assignment>(&message);
    if (work == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  "the coordinator sent a message other than an assignment");
    }
    const auto start = std::chrono::steady_clock::now();
    wire.Show({work->ticket, "beginning", 0, 0});
    const auto files = work_folder.WriteFiles(*work);
    Result<Done> done = files ? judge->Do(*work, *files) : tl::unexpected<Error>(files.error());
    if (wire.is_over()) return Fail(ErrorCode::kCancelled, "the coordinator has ended");
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
  // The leading newline ends an incomplete line of a login shell.
  TRY(os::WriteAll(streams.out, "\n" + LineOf(hello) + "\n", {}, streams.stop));
  WireEnd wire(streams);
  Status status = Work(wire, open);
  if (status || wire.is_over()) return {};
  (void)wire.Send(Failed{status.error()});
  return status;
}

}  // namespace cupel::serve
