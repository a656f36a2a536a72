// The kernel is judged first, then report/export.py writes the package; it gets everything as data.
// SPDX-License-Identifier: Apache-2.0
#include "app/export/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/candidate.h"
#include "app/new_folder.h"
#include "app/session.h"
#include "base/version.h"
#include "oracle/python.h"
#include "oracle/wiring.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/process.h"
#include "os/temp_dir.h"
#include "records/json.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRecordBytes = 16u << 20;
constexpr OneFileOnly kNoProgramInPackage = {
    "export writes a package around one C++/CUDA file",
    "use the program as it is, because PyTorch runs it; cupel "
    "extract writes its CUDA sources, from "
    "which you can write a .cu file with PYBIND11_MODULE"};

/// One exported direction.
struct Side {
  fs::path kernel;
  records::Verdict verdict;
  std::vector<const task::Setting*> settings;  // that the package's test tries
  Json tested = Json::array();                 // the same, with their error scales
};

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

Result<Side> JudgeSide(Session& session, const ExportOptions& options, const task::Task& task,
                       const fs::path& kernel, task::Direction direction) {
  Side side;
  side.kernel = kernel;
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(kernel, options.common, options.compile, *session.parts().events));
  assay::Question question = QuestionOf(task, options.target, options.common);
  question.direction = direction;
  MakeThorough(question);
  question = ForEngines(std::move(question), options.target, options.common);
  TRY_ASSIGN(assay::Judged judged, session.assay().Judge(candidate, question));
  side.verdict = std::move(judged.verdict);
  return side;
}

/// False at a setting that the kernel does not declare.
bool IsClaimed(const records::Verdict& verdict, const task::Setting& setting) {
  return std::none_of(verdict.settings.begin(), verdict.settings.end(), [&](const auto& report) {
    return report.id == setting.id && report.status == records::SettingStatus::kNotDeclared;
  });
}

/// Fills in the settings that the package's test tries, and the tolerance at each. Held-out
/// settings stay secret.
Status AddSettings(Session& session, const ExportOptions& options, const task::Task& task,
                   task::Direction direction, Side& side) {
  for (const task::Setting& setting : task.SettingsOf(direction)) {
    if (setting.kind == task::SettingKind::kHeldout || !IsClaimed(side.verdict, setting)) continue;
    TRY_ASSIGN(const auto cases,
               session.oracle().Cases(task, direction, setting, 1, options.common.seed));
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
  return Json{{"kernel", fs::absolute(side.kernel).string()},
              {"reference", fs::absolute(task.code[static_cast<int>(direction)]).string()},
              {"flags", side.verdict.flags},
              {"verdict", records::ToJson(side.verdict)},
              {"settings", side.tested}};
}

/// Runs report/export.py in a temporary folder next to the destination, then renames the package
/// into place, so that no half-written package remains. Returns the package's name.
Result<std::string> Write(const Json& specification, const ExportOptions& options) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  TRY_ASSIGN(const auto python, oracle::FindPython(options.common.python, cache / "pythons.json",
                                                   options.common.stop));
  const fs::path destination = fs::absolute(options.output).lexically_normal();
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
  spawn.stop = options.common.stop;
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
                          const ExportOptions& options) {
  TRY_ASSIGN(const auto data, os::DataDir());
  TRY_ASSIGN(const auto cache, os::CacheDir());
  oracle::WiringOptions wiring;
  wiring.script = data / "src" / "oracle" / "py" / "wiring.py";
  wiring.python = options.common.python;
  wiring.memory = cache / "pythons.json";
  wiring.stop = options.common.stop;
  std::vector<oracle::WiringQuestion> questions;
  questions.reserve(sides.size());
  for (size_t i = 0; i < sides.size(); ++i) {
    questions.push_back({static_cast<task::Direction>(i), sides[i].settings});
  }
  return oracle::LookAtWiring(task, questions, wiring);
}

Json Compose(const task::Task& task, const std::vector<Side>& sides, const ExportOptions& options,
             Json wiring) {
  Json roots = Json::array();
  for (const auto& root : options.compile.include_roots) {
    roots.push_back(fs::absolute(root).string());
  }
  const bool problem = task.format == task::Format::kKernelBench;
  Json json{{"version", kVersion},
            {"name", options.name.empty() ? task.name : options.name},
            {"task",
             {{"name", task.name},
              {"title", task.title},
              {"format", problem ? "kernelbench" : "folder"}}},
            {"arch", sides[0].verdict.provenance.asked.arch},
            {"include_roots", std::move(roots)},
            {"wiring", std::move(wiring)}};
  json["forward"] = Specification(task, task::Direction::kForward, sides[0]);
  json["backward"] =
      sides.size() > 1 ? Specification(task, task::Direction::kBackward, sides[1]) : Json();
  return json;
}

}  // namespace

Result<ExportReport> Export(const ExportOptions& options, Events& events, const OnVerdict& judged) {
  for (const fs::path& kernel : {options.kernel, options.backward_kernel}) {
    TRY(RequireCudaFile(kernel, kNoProgramInPackage));
  }
  TRY(CheckNewFolder(options.output));
  TRY_ASSIGN(const Json record, ReadRecord(options.record));
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  const bool backward = !options.backward_kernel.empty();
  if (backward && !task.Has(task::Direction::kBackward)) {
    return Fail(ErrorCode::kNotFound, fmt::format("task {} has no backward direction", task.name),
                "leave out --backward-kernel");
  }
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, events));
  ExportReport report;
  std::vector<Side> sides;
  for (int d = 0; d < (backward ? 2 : 1); ++d) {
    const auto direction = static_cast<task::Direction>(d);
    const fs::path& kernel = d == 0 ? options.kernel : options.backward_kernel;
    TRY_ASSIGN(Side side, JudgeSide(*session, options, task, kernel, direction));
    judged(side.verdict);
    report.verdicts.push_back(side.verdict);
    if (side.verdict.decision != records::Decision::kAccepted && !options.force) return report;
    TRY(AddSettings(*session, options, task, direction, side));
    sides.push_back(std::move(side));
  }
  TRY_ASSIGN(const std::string note, RecordNote(record, sides));
  TRY_ASSIGN(Json wiring, LookAtWiring(task, sides, options));
  Json specification = Compose(task, sides, options, std::move(wiring));
  specification["record"] = record;
  specification["record_name"] = options.record.filename().string();
  specification["record_note"] = note;
  TRY_ASSIGN(report.package, Write(specification, options));
  return report;
}

Json ToJson(const ExportReport& report, const std::filesystem::path& folder) {
  Json json{{"schema", "cupel.export/1"}, {"package", report.package}, {"folder", folder.string()}};
  json["forward"] = records::Name(report.verdicts[0].decision);
  if (report.verdicts.size() > 1) json["backward"] = records::Name(report.verdicts[1].decision);
  return json;
}

}  // namespace cupel::app
