// SPDX-License-Identifier: Apache-2.0
#include "app/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/session.h"
#include "base/hash.h"
#include "build/extract.h"
#include "build/flags.h"
#include "oracle/python.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/temp_dir.h"
#include "term/text.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSignature = 4u << 20;
constexpr char kPythonRemedy[] =
    "cupel supports answers whose forward only calls load_inline kernels; for anything else, write "
    "a .cu file with PYBIND11_MODULE";

/// The arguments that the task's function is called with. Cached, because PyTorch takes seconds to
/// start.
Result<Json> SignatureOf(const task::Task& task, task::Direction direction, const Common& common) {
  TRY_ASSIGN(const fs::path cache, os::CacheDir());
  Sha256 key;
  key.Field("signature 1");
  key.Field(task.content_hash[static_cast<int>(direction)]);
  key.Field(task.format == task::Format::kKernelBench ? "problem" : "folder");
  const fs::path file = cache / "signatures" / (key.Hex() + ".json");
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    const auto text = os::ReadFile(file, kMaxSignature);
    auto known = text ? ParseJson(*text, file.string()) : Result<Json>(Json());
    if (known && known->is_object()) return *known;
  }
  TRY_ASSIGN(const oracle::ImportOptions options, ImporterOptions(common, 120, 0));
  oracle::Importer importer(options);
  TRY_ASSIGN(Json signature, importer.Signature(task, direction));
  signature.erase("id");
  fs::create_directories(file.parent_path(), ignored);
  (void)os::WriteFileAtomically(file, DumpJson(signature));  // a failure only costs time later
  return signature;
}

bool IsFastMath(const std::string& flag) { return flag.find("use_fast_math") != std::string::npos; }

/// Keeps the answer's flags that candidates may have. Like PyTorch, cupel compiles an answer
/// without fast math unless the answer asks for it.
void KeepFlags(const std::vector<std::string>& flags, CandidateFile& file) {
  for (const std::string& flag : build::JoinFlags(flags).value_or(flags)) {
    if (build::CandidateFlags({flag})) {
      file.flags.push_back(flag);
    } else {
      file.notes.push_back(
          fmt::format("flag {} of the answer is not allowed and is ignored", flag));
    }
  }
  if (std::none_of(flags.begin(), flags.end(), IsFastMath)) {
    file.flags.push_back("--no-fast-math");
  }
}

}  // namespace

bool IsCandidateName(const fs::path& kernel) {
  return kernel.extension() == ".cu" || kernel.extension() == ".py";
}

Result<CandidateFile> OpenCandidate(const fs::path& kernel, const task::Task* task,
                                    task::Direction direction, const Common& common) {
  CandidateFile file;
  file.path = kernel;
  if (kernel.extension() != ".py") return file;
  const std::string name = kernel.filename().string();
  if (direction == task::Direction::kBackward) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{} is a Python answer, and Python answers have no backward", name),
                "give a .cu file for --backward");
  }
  std::optional<Json> signature;
  if (task != nullptr) {
    TRY_ASSIGN(signature, SignatureOf(*task, direction, common));
  }
  TRY_ASSIGN(const fs::path data, os::DataDir());
  TRY_ASSIGN(const fs::path cache, os::CacheDir());
  TRY_ASSIGN(const oracle::Python python,
             oracle::FindPython(common.python, cache / "cases" / "pythons.json", common.stop));
  build::ExtractOptions options{data / "src" / "build" / "extract.py", python.program, common.stop};
  TRY_ASSIGN(const auto outcome, build::ExtractAnswer(kernel, signature, options));
  if (const auto* refusal = std::get_if<build::ExtractRefusal>(&outcome)) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("unsupported: {}: {}", name, Printable(refusal->message)),
                kPythonRemedy);
  }
  const auto& extraction = std::get<build::Extraction>(outcome);
  TRY_ASSIGN(os::TempDir folder, os::TempDir::Create());
  file.path = folder.path() / (kernel.stem().string() + ".cu");
  TRY(os::WriteFileAtomically(file.path, extraction.source));
  file.folder = std::make_shared<const os::TempDir>(std::move(folder));
  file.notes = extraction.notes;
  KeepFlags(extraction.flags, file);
  return file;
}

Result<CandidateFile> OpenCandidate(const fs::path& kernel, const task::Task* task,
                                    task::Direction direction, const Common& common,
                                    Compile& compile, Events& events) {
  TRY_ASSIGN(CandidateFile file, OpenCandidate(kernel, task, direction, common));
  compile.flags.insert(compile.flags.begin(), file.flags.begin(), file.flags.end());
  for (const std::string& note : file.notes) {
    events.Note(fmt::format("{}: {}", kernel.filename().string(), note));
  }
  return file;
}

Result<assay::Candidate> BuildCandidate(const fs::path& kernel, const CandidateFile& file,
                                        const Common& common, const Compile& compile) {
  TRY_ASSIGN(const build::Options options, CompilerOptions(common, compile));
  TRY_ASSIGN(assay::Candidate candidate, assay::BuildCandidate(file.path, options));
  candidate.path = kernel;
  candidate.folder = file.folder;
  auto* failure = std::get_if<build::BuildFailure>(&candidate.built);
  if (file.folder != nullptr && failure != nullptr && !failure->where.empty()) {
    failure->message +=
        fmt::format(" (in the file that `cupel extract {}` writes)", kernel.filename().string());
  }
  return candidate;
}

Result<assay::Candidate> BuildCandidate(const fs::path& kernel, const task::Task& task,
                                        task::Direction direction, const Common& common,
                                        Compile compile, Events& events) {
  TRY_ASSIGN(const CandidateFile file,
             OpenCandidate(kernel, &task, direction, common, compile, events));
  return BuildCandidate(kernel, file, common, compile);
}

Result<ExtractReport> Extract(const ExtractOptions& options) {
  std::optional<task::Task> task;
  if (!options.task.empty()) {
    TRY_ASSIGN(task::Task named, LoadTarget(Target{.task = options.task}, options.common));
    task.emplace(std::move(named));
  }
  if (options.answer.extension() != ".py") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a Python file", options.answer.string()),
                "give a Python answer with load_inline; its name must end in .py");
  }
  TRY_ASSIGN(CandidateFile file, OpenCandidate(options.answer, task ? &*task : nullptr,
                                               task::Direction::kForward, options.common));
  TRY_ASSIGN(std::string source, os::ReadFile(file.path, 64u << 20));
  return ExtractReport{std::move(source), std::move(file.flags), std::move(file.notes)};
}

}  // namespace cupel::app
