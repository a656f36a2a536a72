// `cupel export`: writes a kernel as an installable PyTorch package. The kernel is judged first,
// then report/export.py writes the package; it gets everything as data. This file is in cli/
// because it needs the assay, the oracle and the judge, which report/ may not include.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/candidate.h"
#include "app/session.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "judge/verdict_text.h"
#include "oracle/python.h"
#include "oracle/wiring.h"
#include "os/fd.h"
#include "os/process.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRecordBytes = 16u << 20;

/// One exported direction.
struct Side {
  app::CandidateFile file;
  judge::Verdict verdict;
  std::vector<const task::Setting*> settings;  // that the package's test tries
  Json tested = Json::array();                 // the same, with their error scales
};

Status CheckDestination(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (fs::is_directory(folder, error) && !fs::is_symlink(folder, error) &&
      fs::is_empty(folder, error) && !error) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} exists and is not an empty folder", folder.string()),
              "choose another folder with -o");
}

/// The record to show in the README.
Result<Json> ReadRecord(const fs::path& path) {
  if (path.empty()) return Json();
  TRY_ASSIGN(const std::string text, os::ReadFile(path, kMaxRecordBytes));
  TRY_ASSIGN(Json record, ParseJson(text, path.string()));
  if (!record.is_object() || !record.contains("schema") || !record["schema"].is_string() ||
      !record["schema"].get<std::string>().starts_with("cupel.")) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a record that cupel wrote", path.string()),
                "give a file that `cupel bench --json FILE` wrote");
  }
  return record;
}

/// Collects all source hashes in a record.
void CollectSources(const Json& json, std::vector<std::string>& found) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if ((key == "source_sha256" || key == "source_hash") && value.is_string()) {
      found.push_back(value.get<std::string>());
    }
    CollectSources(value, found);
  }
}

/// The README's note on which kernel the record belongs to. A record of another kernel is an error.
Result<std::string> RecordNote(const Json& record, const std::vector<Side>& sides) {
  if (record.is_null()) return std::string();
  std::vector<std::string> sources;
  CollectSources(record, sources);
  if (sources.empty()) return std::string("; it does not name the source that it measured");
  for (const Side& side : sides) {
    for (const std::string& source : sources) {
      if (source == side.verdict.source_hash) return std::string();
    }
  }
  return Fail(ErrorCode::kInvalidArgument, "the record belongs to another kernel",
              "run cupel bench on this kernel and give its record, or leave out --record");
}

Result<Side> JudgeSide(app::Session& session, const ExportCommand& command, const task::Task& task,
                       const fs::path& kernel, task::Direction direction, app::Events& events) {
  Side side;
  app::Compile compile = command.compile;
  TRY_ASSIGN(side.file, OpenCandidate(kernel, &task, direction, command.common, compile, events));
  TRY_ASSIGN(const assay::Candidate candidate, BuildCandidate(kernel, side.file, compile));
  assay::Question question = QuestionOf(task, command.target, command.common);
  question.direction = direction;
  question.shadows = true;
  question.integers = true;
  question.distributions.assign(task::OtherInputs().begin(), task::OtherInputs().end());
  TRY_ASSIGN(assay::Judged judged, session.assay().Judge(candidate, question));
  side.verdict = std::move(judged.verdict);
  return side;
}

/// False at a setting that the kernel does not declare.
bool IsClaimed(const judge::Verdict& verdict, const task::Setting& setting) {
  return std::none_of(verdict.settings.begin(), verdict.settings.end(), [&](const auto& report) {
    return report.id == setting.id && report.status == "not_declared";
  });
}

/// Fills in the settings that the package's test tries, and the tolerance at each. Held-out
/// settings stay secret.
Status AddSettings(app::Session& session, const ExportCommand& command, const task::Task& task,
                   task::Direction direction, Side& side) {
  for (const task::Setting& setting : task.SettingsOf(direction)) {
    if (setting.kind == task::SettingKind::kHeldout || !IsClaimed(side.verdict, setting)) continue;
    TRY_ASSIGN(const auto cases,
               session.oracle().Cases(task, direction, setting, 1, command.common.seed));
    const auto* wanted = cases.empty() ? nullptr : std::get_if<task::Case>(&cases[0]);
    if (wanted == nullptr) continue;  // the reference fails at this setting; the verdict says so
    Json scales = Json::array();
    for (const task::Output& output : wanted->outputs) scales.push_back(output.error_scale);
    side.settings.push_back(&setting);
    side.tested.push_back(Json{{"id", setting.id},
                               {"init", setting.init},
                               {"inputs", setting.inputs},
                               {"reduced", setting.reduced},
                               {"scales", std::move(scales)}});
  }
  if (!side.settings.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the reference of {} fails at every setting", task.name));
}

Json Specification(const task::Task& task, task::Direction direction, const Side& side) {
  return Json{{"kernel", fs::absolute(side.file.path).string()},
              {"reference", fs::absolute(task.code[static_cast<int>(direction)]).string()},
              {"flags", side.verdict.flags},
              {"verdict", judge::ToJson(side.verdict)},
              {"settings", side.tested}};
}

/// Runs report/export.py in a temporary folder next to the destination, then renames the package
/// into place, so that no half-written package remains. Returns the package's name.
Result<std::string> Write(const Json& specification, const ExportCommand& command) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  TRY_ASSIGN(const auto python, oracle::FindPython(command.common.python, cache / "pythons.json"));
  const fs::path destination = fs::absolute(command.output).lexically_normal();
  const fs::path parent = destination.has_filename() ? destination.parent_path()
                                                     : destination.parent_path().parent_path();
  std::error_code error;
  fs::create_directories(parent, error);
  TRY_ASSIGN(const os::TempDir staging, os::TempDir::Create(parent));
  const fs::path request = staging.path() / "specification.json";
  TRY(os::WriteFileAtomically(request, DumpJson(specification)));
  const fs::path package = staging.path() / "package";

  os::SpawnOptions spawn;
  spawn.argv = {python.program, "-B", (data / "src" / "report" / "export.py").string(),
                request.string(), package.string()};
  spawn.env = os::CurrentEnvironment();
  TRY_ASSIGN(const os::RunResult run, os::Run(std::move(spawn), std::chrono::minutes(1)));
  if (!run.status.exited || run.status.code != 0) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot write the package: {}: {}", run.status.Describe(), run.err));
  }
  TRY_ASSIGN(const Json reply, ParseJson(run.out, "export.py"));
  if (reply.contains("unsupported")) {
    TRY_ASSIGN(const std::string why, JsonString(reply, "unsupported", "export.py"));
    return Fail(ErrorCode::kUnsupported,
                "unsupported: cannot make a package for this task: " + why);
  }
  fs::rename(package, destination.has_filename() ? destination : destination.parent_path(), error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot write {}: {}", destination.string(), error.message()));
  }
  return JsonString(reply, "name", "export.py");
}

Result<Json> LookAtWiring(const task::Task& task, const std::vector<Side>& sides,
                          const ExportCommand& command) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  oracle::WiringOptions options;
  options.script = data / "src" / "oracle" / "wiring.py";
  options.python = command.common.python;
  options.memory = cache / "pythons.json";
  std::vector<oracle::WiringQuestion> questions;
  questions.reserve(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    questions.push_back({static_cast<task::Direction>(i), sides[i].settings});
  }
  return oracle::LookAtWiring(task, questions, options);
}

Json Compose(const task::Task& task, const std::vector<Side>& sides, const ExportCommand& command,
             Json wiring) {
  Json roots = Json::array();
  for (const auto& root : command.compile.include_roots) {
    roots.push_back(fs::absolute(root).string());
  }
  const bool problem = task.format == task::Format::kKernelBench;
  Json json{{"version", kVersion},
            {"name", command.name.empty() ? task.name : command.name},
            {"task",
             {{"name", task.name},
              {"title", task.title},
              {"format", problem ? "kernelbench" : "folder"}}},
            {"arch", command.compile.arch},
            {"include_roots", std::move(roots)},
            {"wiring", std::move(wiring)}};
  json["forward"] = Specification(task, task::Direction::kForward, sides[0]);
  json["backward"] =
      sides.size() > 1 ? Specification(task, task::Direction::kBackward, sides[1]) : Json();
  return json;
}

}  // namespace

Result<int> Run(const ExportCommand& command) {
  TRY(CheckDestination(command.output));
  TRY_ASSIGN(const Json record, ReadRecord(command.record));
  TRY_ASSIGN(const task::Task task, LoadTarget(command.target, command.common));
  const bool backward = !command.backward_kernel.empty();
  if (backward && !task.Has(task::Direction::kBackward)) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no backward direction", task.name),
                "leave out --backward-kernel");
  }
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(auto session, app::Session::Create(command.common, command.compile, view));
  std::vector<Side> sides;
  for (int d = 0; d < (backward ? 2 : 1); ++d) {
    const auto direction = static_cast<task::Direction>(d);
    const fs::path& kernel = d == 0 ? command.kernel : command.backward_kernel;
    TRY_ASSIGN(Side side, JudgeSide(*session, command, task, kernel, direction, view));
    view.End();
    judge::TextOptions text;
    text.colour = ::isatty(STDOUT_FILENO) != 0;
    fmt::print("{}", judge::VerdictText(side.verdict, text));
    if (side.verdict.decision != judge::Decision::kAccepted && !command.force) {
      fmt::print(
          "Not exported: the kernel is not accepted. --force exports it anyway; the package says "
          "so.\n");
      TRY(WriteJson(command.show.json, judge::ToJson(side.verdict)));
      return judge::ExitStatus(side.verdict.decision);
    }
    TRY(AddSettings(*session, command, task, direction, side));
    sides.push_back(std::move(side));
  }
  TRY_ASSIGN(const std::string note, RecordNote(record, sides));
  TRY_ASSIGN(Json wiring, LookAtWiring(task, sides, command));
  Json specification = Compose(task, sides, command, std::move(wiring));
  specification["record"] = record;
  specification["record_name"] = command.record.filename().string();
  specification["record_note"] = note;
  TRY_ASSIGN(const std::string name, Write(specification, command));
  fmt::print(
      "Package {} written to {}. Install and test it on a machine with a GPU:\n"
      "  python -m pip install --no-build-isolation {}\n  python -m {}.test\n",
      name, report::Printable(command.output.string()), report::Printable(command.output.string()),
      name);
  Json json{{"schema", "cupel.export/1"}, {"package", name}, {"folder", command.output.string()}};
  json["forward"] = judge::Name(sides[0].verdict.decision);
  if (backward) json["backward"] = judge::Name(sides[1].verdict.decision);
  TRY(WriteJson(command.show.json, json));
  return 0;
}

}  // namespace cupel::cli
