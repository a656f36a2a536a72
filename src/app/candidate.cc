// SPDX-License-Identifier: Apache-2.0
#include "app/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/session.h"
#include "app/signature.h"
#include "build/extract.h"
#include "build/flags.h"
#include "build/sources.h"
#include "device/device.h"
#include "oracle/python.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/path.h"
#include "os/temp_dir.h"
#include "term/text.h"
#include "trace/setup_script.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr char kPythonRemedy[] =
    "cupel supports answers whose forward only calls load_inline kernels; for anything else, write "
    "a .cu file with PYBIND11_MODULE";

task::Setting FirstSetting(const task::Task& task, task::Direction direction) {
  const auto& settings = task.SettingsOf(direction);
  return settings.empty() ? task::Setting() : settings.front();
}

/// The setup.py that a user names, or whose folder; nothing for other candidates.
std::optional<fs::path> SetupScriptOf(const fs::path& kernel, const std::vector<fs::path>& more) {
  if (!more.empty()) return std::nullopt;
  if (kernel.filename() == build::kSetupName) return kernel;
  if (os::IsFile(kernel / build::kSetupName)) return kernel / build::kSetupName;
  return std::nullopt;
}

/// Builds the extension that a setup.py describes.
Result<assay::Candidate> BuildSetup(const fs::path& script, const Common& common,
                                    const Compile& compile, build::Options options) {
  const fs::path folder = fs::absolute(script).lexically_normal().parent_path();
  TRY_ASSIGN(const device::Description device, device::Find(common.model));
  TRY_ASSIGN(const auto pythons, MakePythons(common, compile));
  TRY_ASSIGN(auto outcome, trace::RunSetup(script, *pythons, device, common.stop));
  if (auto* refusal = std::get_if<record::Refusal>(&outcome)) {
    assay::Candidate failed{folder, {}, std::move(options)};
    failed.built = build::BuildFailure{
        refusal->code, refusal->message, refusal->where, {}, refusal->unsupported};
    return failed;
  }
  const auto& extension = std::get<trace::SetupExtension>(outcome);
  build::AnswerFlags flags = build::FlagsOfAnswer(extension.flags);
  options.flags.insert(options.flags.begin(), flags.kept.begin(), flags.kept.end());
  std::vector<std::string> folders;
  for (const std::string& path : extension.include_dirs) {
    const std::string name = fs::path(path).lexically_normal().string();
    if (os::IsFolder(folder / name) && !name.starts_with("..") && !fs::path(name).is_absolute()) {
      folders.push_back(name);
    } else {
      flags.notes.push_back(fmt::format(
          "setup.py names the folder {}, which is not below its own and is ignored (--include adds "
          "a folder)",
          path.substr(0, 200)));
    }
  }
  TRY_ASSIGN(build::Sources sources, build::OpenBelow(folder, extension.sources, {}, folders));
  TRY_ASSIGN(assay::Candidate candidate,
             assay::BuildCandidate(folder, std::move(sources), std::move(options)));
  candidate.notes = std::move(flags.notes);
  return candidate;
}

}  // namespace

bool IsCandidateName(const fs::path& kernel) {
  return kernel.extension() == ".cu" || kernel.extension() == ".py";
}

Result<CandidateFile> ExtractCandidate(const fs::path& kernel, const task::Task* task,
                                       task::Direction direction, const Common& common) {
  if (os::IsFolder(kernel)) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("unsupported: {} is a folder, and this command takes one .cu file",
                            kernel.string()),
                "check, verify, bench, stream, profile and suite take several files");
  }
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
    TRY_ASSIGN(signature, Signatures(common).Of(*task, direction, FirstSetting(*task, direction)));
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
  build::AnswerFlags flags = build::FlagsOfAnswer(extraction.flags);
  file.flags = std::move(flags.kept);
  file.notes.insert(file.notes.end(), flags.notes.begin(), flags.notes.end());
  return file;
}

Result<CandidateFile> ExtractCandidate(const fs::path& kernel, const task::Task* task,
                                       task::Direction direction, const Common& common,
                                       Compile& compile, Events& events) {
  TRY_ASSIGN(CandidateFile file, ExtractCandidate(kernel, task, direction, common));
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

Result<assay::Candidate> BuildCandidate(const fs::path& kernel, const Common& common,
                                        const Compile& compile) {
  TRY_ASSIGN(const build::Options options, CompilerOptions(common, compile));
  if (const auto script = SetupScriptOf(kernel, compile.sources)) {
    return BuildSetup(*script, common, compile, options);
  }
  return assay::BuildCandidate(kernel, options, compile.sources);
}

void ReportNotes(const assay::Candidate& candidate, Events& events) {
  for (const std::string& note : candidate.notes) {
    events.Note(fmt::format("{}: {}", candidate.path.filename().string(), note));
  }
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
  TRY_ASSIGN(CandidateFile file, ExtractCandidate(options.answer, task ? &*task : nullptr,
                                                  task::Direction::kForward, options.common));
  TRY_ASSIGN(std::string source, os::ReadFile(file.path, 64u << 20));
  return ExtractReport{std::move(source), std::move(file.flags), std::move(file.notes)};
}

}  // namespace cupel::app
