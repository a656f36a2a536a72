// SPDX-License-Identifier: Apache-2.0
#include "cli/task_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/session.h"
#include "base/hash.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "os/fd.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxProblem = 4u << 20;

/// The problems that the command line names: files, and the files in folders.
Result<std::vector<app::TaskFile>> ProblemsOf(const ImportCommand& command) {
  std::vector<app::TaskFile> files;
  std::error_code ignored;
  for (const fs::path& path : command.paths) {
    if (fs::is_regular_file(path, ignored) && path.extension() == ".py") {
      files.push_back({path.stem().string(), path});
    } else if (app::IsTaskFolder(path)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is already a task folder", path.string()),
                  fmt::format("use it directly: --task {}", path.string()));
    } else if (fs::is_directory(path, ignored)) {
      TRY_ASSIGN(const std::vector<app::TaskFile> found, app::FindTaskFiles(path));
      std::copy_if(found.begin(), found.end(), std::back_inserter(files),
                   [](const app::TaskFile& file) { return file.path.extension() == ".py"; });
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
  if (!command.name.empty() && files.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument, "--name works only with a single file",
                "leave it out; then each task gets the name of its file");
  }
  if (command.name.empty()) return files;
  const fs::path name = command.name;
  if (name.has_parent_path() || name == "." || name == "..") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--name must be a name, not a path: {}", command.name),
                "use -o to choose the folder");
  }
  files.front().name = command.name;
  return files;
}

std::string SizesText(const Json& sizes) {
  std::string text;
  for (const auto& [key, value] : sizes.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, DumpJson(value));
  }
  return text;
}

/// The members of `sizes` that differ from those of `before`.
Json Changed(const Json& before, const Json& sizes) {
  Json changed = Json::object();
  for (const auto& [key, value] : sizes.items()) {
    if (!before.contains(key) || before[key] != value) changed[key] = value;
  }
  return changed;
}

void Print(const app::TaskFile& file, const fs::path& folder, const oracle::Imported& imported) {
  fmt::print("{}: {}\n", report::Printable(file.name), report::Printable(folder.string()));
  fmt::print("  {} argument{}; forward_fn {}\n", imported.arguments.size(),
             imported.arguments.size() == 1 ? "" : "s",
             imported.functional ? "uses plain functions" : "calls the module");
  if (!imported.sizes.empty()) {
    fmt::print("  sizes that can be changed: {}\n", report::Printable(SizesText(imported.sizes)));
  }
  if (!imported.reduced.empty()) {
    fmt::print("  smaller sizes for the emulator: {}\n",
               report::Printable(SizesText(Changed(imported.sizes, imported.reduced))));
  }
  if (!imported.compared.empty()) {
    fmt::print("  same results as the file, bit for bit, at {}\n", imported.compared);
  }
  for (const std::string& note : imported.notes) {
    fmt::print("  note: {}\n", report::Printable(note));
  }
}

/// Imports one file. Returns false if it cannot be imported, e.g. because it cannot be read or its
/// folder exists; the other files are still imported.
Result<bool> ImportOne(const ImportCommand& command, const app::TaskFile& file,
                       oracle::Importer& importer, ImportedProblem& problem) {
  const fs::path output = command.output.empty() ? fs::path(".") : command.output;
  const auto reject = [&](std::string why) {
    fmt::print("{}: {}\n", report::Printable(file.name), report::Printable(why));
    problem.refusal = std::move(why);
    return false;
  };
  const fs::path folder = output / file.name;
  if (!problem.refusal.empty()) return reject(problem.refusal);
  if (FolderExists(command, folder, problem)) return reject(problem.refusal);
  TRY_ASSIGN(const auto outcome, importer.Import(RequestOf(command, file)));
  if (const auto* refusal = std::get_if<oracle::ImportRefusal>(&outcome)) {
    return reject("unsupported: " + refusal->message);
  }
  const auto& imported = std::get<oracle::Imported>(outcome);
  Take(imported, problem);
  problem.folder = folder.string();
  TRY(WriteImported(file.path, imported, folder, command.force));
  if (!command.show.quiet) Print(file, folder, imported);
  return true;
}

Result<int> ImportAll(const ImportCommand& command, const std::vector<app::TaskFile>& files) {
  TRY_ASSIGN(const oracle::ImportOptions options,
             app::ImporterOptions(command.common, command.seconds, command.memory));
  oracle::Importer importer(options);
  ImportReport report;
  report.seconds = command.seconds;
  report.memory = static_cast<int64_t>(command.memory);
  size_t refused = 0;
  for (const app::TaskFile& file : files) {
    ImportedProblem problem = ProblemOf(file);
    TRY_ASSIGN(const bool imported, ImportOne(command, file, importer, problem));
    refused += imported ? 0 : 1;
    report.problems.push_back(std::move(problem));
  }
  if (files.size() > 1) {
    fmt::print("{} of {} problems imported\n", files.size() - refused, files.size());
  }
  TRY(WriteJson(command.show.json, ImportJson(report)));
  if (refused == 0) return 0;
  if (refused < files.size()) return 1;
  // If all folders exist already, nothing was imported: wrong usage.
  const bool all_exist =
      std::all_of(report.problems.begin(), report.problems.end(),
                  [](const ImportedProblem& problem) { return problem.already_there; });
  return all_exist ? 2 : 3;
}

}  // namespace

oracle::ImportRequest RequestOf(const ImportCommand& command, const app::TaskFile& file) {
  oracle::ImportRequest request;
  request.path = file.path;
  request.name = fs::path(file.name).filename().string();
  request.module = command.module;
  request.inputs = command.inputs;
  request.init = command.init;
  request.evaluate = command.evaluate;
  return request;
}

ImportedProblem ProblemOf(const app::TaskFile& file) {
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

bool FolderExists(const ImportCommand& command, const fs::path& folder, ImportedProblem& problem) {
  std::error_code ignored;
  problem.already_there = !command.force && fs::exists(folder, ignored);
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

Result<int> Run(const ImportCommand& command) {
  TRY_ASSIGN(const std::vector<app::TaskFile> files, ProblemsOf(command));
  return command.report.empty() ? ImportAll(command, files) : RunImportReport(command, files);
}

}  // namespace cupel::cli
