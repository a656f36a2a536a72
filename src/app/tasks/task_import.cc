// SPDX-License-Identifier: Apache-2.0
#include "app/tasks/task_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/session.h"
#include "base/hash.h"
#include "os/files.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxProblem = 4u << 20;

/// The problems that the command line names: files, and the files in folders.
Result<std::vector<TaskFile>> ProblemsOf(const ImportOptions& options) {
  std::vector<TaskFile> files;
  std::error_code ignored;
  for (const fs::path& path : options.paths) {
    if (fs::is_regular_file(path, ignored) && path.extension() == ".py") {
      files.push_back({path.stem().string(), path});
    } else if (IsTaskFolder(path)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is already a task folder", path.string()),
                  fmt::format("use it directly: --task {}", path.string()));
    } else if (fs::is_directory(path, ignored)) {
      TRY_ASSIGN(const std::vector<TaskFile> found, FindTaskFiles(path));
      std::copy_if(found.begin(), found.end(), std::back_inserter(files),
                   [](const TaskFile& file) { return file.path.extension() == ".py"; });
    } else {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("{} is neither a Python file nor a folder", path.string()),
          "give a KernelBench problem, any .py file with an nn.Module, or a folder of them");
    }
  }
  if (files.empty()) {
    return Fail(ErrorCode::kNotFound, "there is no .py file in these folders",
                "give the files, or the folder that contains them");
  }
  if (!options.name.empty() && files.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument, "--name works only with a single file",
                "leave it out; then each task gets the name of its file");
  }
  if (options.name.empty()) return files;
  const fs::path name = options.name;
  if (name.has_parent_path() || name == "." || name == "..") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--name must be a name, not a path: {}", options.name),
                "use -o to choose the folder");
  }
  files.front().name = options.name;
  return files;
}

/// Imports one file. If it cannot be imported, e.g. because it cannot be read or its folder exists,
/// the problem has a refusal; the other files are still imported.
Status ImportOne(const ImportOptions& options, const TaskFile& file, oracle::Importer& importer,
                 ImportedProblem& problem) {
  const fs::path output = options.output.empty() ? fs::path(".") : options.output;
  const fs::path folder = output / file.name;
  if (!problem.refusal.empty() || FolderExists(options, folder, problem)) return {};
  TRY_ASSIGN(const auto outcome, importer.Import(RequestOf(options, file)));
  if (const auto* refusal = std::get_if<oracle::ImportRefusal>(&outcome)) {
    problem.refusal = "unsupported: " + refusal->message;
    return {};
  }
  const auto& imported = std::get<oracle::Imported>(outcome);
  Take(imported, problem);
  problem.folder = folder.string();
  return WriteImported(file.path, imported, folder, options.force);
}

Result<ImportReport> ImportAll(const ImportOptions& options, const std::vector<TaskFile>& files,
                               const OnImported& imported) {
  TRY_ASSIGN(const oracle::ImportOptions importing,
             ImporterOptions(options.common, options.seconds, options.memory));
  oracle::Importer importer(importing);
  ImportReport report;
  report.seconds = options.seconds;
  report.memory = static_cast<int64_t>(options.memory);
  for (const TaskFile& file : files) {
    ImportedProblem problem = ProblemOf(file);
    TRY(ImportOne(options, file, importer, problem));
    imported(problem);
    report.problems.push_back(std::move(problem));
  }
  return report;
}

}  // namespace

oracle::ImportRequest RequestOf(const ImportOptions& options, const TaskFile& file) {
  oracle::ImportRequest request;
  request.path = file.path;
  request.name = fs::path(file.name).filename().string();
  request.module = options.module;
  request.inputs = options.inputs;
  request.init = options.init;
  request.evaluate = options.evaluate;
  return request;
}

ImportedProblem ProblemOf(const TaskFile& file) {
  ImportedProblem problem;
  problem.name = file.name;
  problem.path = file.path.string();
  if (const auto text = os::ReadFile(file.path, kMaxProblem)) {
    problem.sha256 = Sha256Hex(*text);
  } else {
    problem.refusal = text.error().message;
  }
  return problem;
}

bool FolderExists(const ImportOptions& options, const fs::path& folder, ImportedProblem& problem) {
  std::error_code ignored;
  problem.already_there = !options.force && fs::exists(folder, ignored);
  if (problem.already_there) {
    problem.refusal = fmt::format("{} exists: use --force to overwrite its files, or another -o",
                                  folder.string());
  }
  return problem.already_there;
}

void Take(const oracle::Imported& imported, ImportedProblem& problem) {
  problem.sizes = imported.sizes;
  problem.reduced = imported.reduced;
  problem.arguments = imported.arguments;
  problem.notes = imported.notes;
  problem.functional = imported.functional;
  problem.compared = imported.compared;
}

Status WriteImported(const fs::path& problem, const oracle::Imported& imported,
                     const fs::path& folder, bool force) {
  std::error_code error;
  if (!force && fs::exists(folder, error)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} exists", folder.string()),
                "use --force to overwrite its files, or another -o");
  }
  TRY_ASSIGN(const std::string text, os::ReadFile(problem, kMaxProblem));
  fs::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot create {}: {}", folder.string(), error.message()),
                "choose a writable folder with -o");
  }
  TRY(os::WriteFileAtomically(folder / "problem.py", text));
  for (const auto& [name, content] : imported.files) {
    TRY(os::WriteFileAtomically(folder / name, content));
  }
  return {};
}

Result<ImportReport> ImportTasks(const ImportOptions& options, Events& events,
                                 const OnImported& imported) {
  TRY_ASSIGN(const std::vector<TaskFile> files, ProblemsOf(options));
  return options.report.empty() ? ImportAll(options, files, imported)
                                : ImportAndRun(options, files, events);
}

}  // namespace cupel::app
