// SPDX-License-Identifier: Apache-2.0
#include "app/check/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "app/check/without_fast_math.h"
#include "app/session.h"
#include "base/hash.h"
#include "build/build.h"
#include "gpu/driver.h"
#include "judge/record.h"
#include "os/files.h"
#include "os/folders.h"
#include "os/path.h"
#include "records/json.h"
#include "task/allowed_operators.h"
#include "task/reduced.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRecord = 64u << 20;

/// The kernel and the task of a record, as found on this machine.
struct Subject {
  judge::Record record;
  fs::path kernel;  // the path that messages name
  task::Task task;
  std::optional<build::Sources> sources;  // if the kernel has several files
};

/// Looks for the kernel at the path in the record, then next to the record, which is in `folder`. A
/// kernel of several files may be a folder.
Result<fs::path> FindKernel(const VerifyOptions& options, const judge::Record& record,
                            const fs::path& folder) {
  fs::path path = options.kernel.empty() ? fs::path(record.verdict.kernel_path) : options.kernel;
  if (!path.has_filename()) path = path.parent_path();
  const auto exists = [&](const fs::path& at) {
    return os::IsFile(at) || (!record.verdict.files.empty() && os::IsFolder(at));
  };
  if (options.kernel.empty() && !exists(path)) path = folder / path.filename();
  if (exists(path)) return path;
  return Fail(ErrorCode::kNotFound, fmt::format("cannot find the kernel {}", path.string()),
              "give the file that was judged with --kernel FILE");
}

/// Looks for the task at the path in the record, then for a task with the recorded name.
Result<task::Task> FindTask(const VerifyOptions& options, const judge::Record& record) {
  TRY_ASSIGN(const auto data, os::DataDir());
  std::error_code error;
  std::string name = options.task;
  if (name.empty()) {
    const std::string& path = record.verdict.provenance.asked.task;
    name = fs::exists(path, error) ? path : record.verdict.task;
  }
  auto task = task::LoadTask(name, data / "tasks");
  if (!task && options.task.empty()) {
    task.error().remedy = "give the task that it was judged on with --task; " + task.error().remedy;
  }
  return task;
}

/// The task with the sizes at which it was asked.
task::Task WithSizesOf(const records::Asked& asked, const task::Task& task) {
  return asked.reduced ? task::Reduced(task) : task;
}

Result<Subject> FindSubject(const VerifyOptions& options, const fs::path& file_of_record) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file_of_record, kMostRecord));
  TRY_ASSIGN(judge::Record record, judge::ReadRecord(text, file_of_record.string()));
  TRY_ASSIGN(fs::path kernel, FindKernel(options, record, file_of_record.parent_path()));
  TRY_ASSIGN(const task::Task listed, FindTask(options, record));
  task::Task task = WithSizesOf(record.verdict.provenance.asked, listed);
  Subject subject{std::move(record), std::move(kernel), std::move(task), std::nullopt};
  const records::Verdict& verdict = subject.record.verdict;
  if (!verdict.files.empty()) {
    TRY_ASSIGN(subject.sources, build::OpenListed(subject.kernel, verdict.files,
                                                  verdict.provenance.asked.include_folders));
  }
  return subject;
}

Result<std::string> SourceHashOf(const Subject& subject) {
  if (subject.sources) return build::HashOf(*subject.sources);
  TRY_ASSIGN(const std::string source, os::ReadFile(subject.kernel, build::kMaxSourceBytes));
  return Sha256Hex(source);
}

/// The checks that must pass, otherwise the record is about other files or was edited.
Result<std::vector<RecordCheck>> CheckEvidence(const Subject& subject) {
  const judge::Record& record = subject.record;
  std::vector<RecordCheck> checks;
  TRY_ASSIGN(const std::string source_hash, SourceHashOf(subject));
  checks.push_back({"digest", record.verdict.digest, record.computed_digest, true});
  checks.push_back({"form", "as cupel writes it",
                    record.is_canonical ? "as cupel writes it" : "not as cupel writes it", true});
  checks.push_back({"source", record.verdict.source_hash, source_hash, true});
  checks.push_back({"task", record.verdict.task_hash,
                    subject.task.content_hash[static_cast<int>(record.verdict.direction)], true});
  if (!subject.sources) return checks;
  // Names the files that have changed.
  for (size_t i = 0; i < subject.sources->files.size(); ++i) {
    const build::SourceFile& file = subject.sources->files[i];
    const std::string hash = Sha256Hex(file.text);
    if (hash != record.verdict.files[i].hash) {
      checks.push_back({file.name, record.verdict.files[i].hash, hash, true});
    }
  }
  return checks;
}

/// Versions that may differ when the verdict is repeated. Differences are only reported.
std::vector<RecordCheck> CheckTools(const judge::Record& record, const records::Verdict& now) {
  const records::Provenance &then = record.verdict.provenance, &mine = now.provenance;
  return {{"cupel", then.program_hash, mine.program_hash, false},
          {"toolkit", record.verdict.toolkit, now.toolkit, false},
          {"PyTorch", record.verdict.torch_version, now.torch_version, false},
          {"headers", then.shim_hash, mine.shim_hash, false},
          {"oracle", then.oracle_hash, mine.oracle_hash, false},
          {"PTX", then.ptx_hash, mine.ptx_hash, false}};
}

/// True if a tool differs on which the numbers of a verdict depend.
bool IsByOtherVersion(const std::vector<RecordCheck>& tools) {
  constexpr auto kDeciding =
      std::to_array<std::string_view>({"cupel", "toolkit", "PyTorch", "headers", "oracle"});
  return std::ranges::any_of(tools, [&](const RecordCheck& tool) {
    return !tool.IsSame() && std::ranges::find(kDeciding, tool.name) != kDeciding.end();
  });
}

/// The question that one engine's verdict answers, about `task`.
Result<assay::Question> QuestionOfOne(const records::Verdict& verdict, const task::Task& task) {
  const records::Asked& asked = verdict.provenance.asked;
  assay::Question question;
  question.task = &task;
  question.direction = verdict.direction;
  question.kinds = asked.kinds;
  question.trials = asked.trials;
  question.shadows = asked.shadows;
  question.integers = asked.integers;
  question.schedules = asked.schedules;
  question.explores = asked.explores;
  question.proves = asked.proves;
  question.strict_layouts = asked.strict_layouts;
  question.few_inputs = asked.few_inputs;
  for (const std::string& name : asked.distributions) {
    const auto distribution = task::DistributionNamed(name);
    if (!distribution) {
      return Fail(
          ErrorCode::kUnsupported,
          fmt::format("unsupported: this version of cupel does not know inputs of the kind {}",
                      name.substr(0, 40)),
          "use the version of cupel that wrote the record");
    }
    question.distributions.push_back(*distribution);
  }
  question.operators = task.operators;
  if (!asked.operators.empty()) {  // older records do not say
    TRY_ASSIGN(question.operators, task::ParseAllowedOperators(asked.operators));
  }
  question.fresh_cases = true;  // compute cases again instead of using the pool
  if (verdict.seed_origin == records::SeedOrigin::kUser) {
    question.seed = verdict.seed;
  } else {
    assay::UseCasesOf(verdict, question);
  }
  return question;
}

/// The question that the record answers.
Result<assay::Question> QuestionOf(const Subject& subject) {
  const records::Verdict& verdict = subject.record.verdict;
  TRY_ASSIGN(assay::Question question, QuestionOfOne(verdict, subject.task));
  for (const records::Verdict& other : verdict.other_engines) {
    auto emulator = std::make_shared<assay::EmulatorQuestion>();
    emulator->task = WithSizesOf(other.provenance.asked, subject.task);
    TRY_ASSIGN(emulator->question, QuestionOfOne(other, emulator->task));
    question.emulator = std::move(emulator);
  }
  return question;
}

/// The device for the repetition, as --device names it.
Result<std::string> DeviceOf(const VerifyOptions& options, const records::Asked& asked) {
  const std::string& given = options.common.device;
  if (given == "auto") return asked.engine;
  if (given.substr(0, 3) == asked.engine.substr(0, 3)) return given;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the record was made on {} and cannot be repeated on {}",
                          asked.engine.substr(0, 40), given),
              "leave out --device, or give a GPU for a record that was made on a GPU");
}

Result<assay::Candidate> BuildSubject(Session& session, const Subject& subject) {
  if (!subject.sources) return session.assay().Build(subject.kernel);
  return assay::BuildCandidate(subject.kernel, *subject.sources, session.parts().build);
}

/// Judges again, with the options of the record.
Result<records::Verdict> Repeat(const VerifyOptions& options, const Subject& subject,
                                Events& events) {
  const records::Asked& asked = subject.record.verdict.provenance.asked;
  Common common = options.common;
  TRY_ASSIGN(common.device, DeviceOf(options, asked));
  common.model = asked.model;
  const auto& others = subject.record.verdict.other_engines;
  common.engines = others.empty() ? "gpu" : "both";
  if (!others.empty()) common.emulator_model = others.front().provenance.asked.model;
  Compile compile = options.compile;
  compile.arch = asked.arch;
  compile.flags = asked.flags;
  compile.seconds = asked.compile_seconds;
  for (const std::string& root : asked.include_roots) compile.include_roots.emplace_back(root);
  TRY_ASSIGN(const assay::Question question, QuestionOf(subject));
  TRY_ASSIGN(auto session, Session::Create(common, compile, events));
  events.Show(Progress{"building"});
  TRY_ASSIGN(assay::Candidate candidate, BuildSubject(*session, subject));
  candidate.path = subject.kernel;
  TRY_ASSIGN(assay::Judged judged, session->assay().Judge(candidate, question));
  const auto is_fast = [](const records::Reason& reason) { return reason.code == kFastMathReason; };
  if (std::ranges::any_of(subject.record.verdict.reasons, is_fast)) {
    TRY(TryWithoutFastMath(subject.kernel, common, compile, question, *session, events,
                           judged.verdict));
  }
  for (const std::string& warning : session->oracle().warnings()) {
    judged.verdict.notes.push_back(warning);
  }
  return std::move(judged.verdict);
}

/// Why the record cannot be repeated on this machine; empty if it can.
std::string WhatIsMissing(const judge::Record& record, const Subject& subject) {
  if (!record.verdict.provenance.asked.engine.starts_with("gpu")) return "";
  const auto driver = gpu::OpenDriver();
  if (driver) return "";
  return fmt::format(
      "this needs a GPU ({}); to judge the kernel without one: cupel check {} --task {}{} "
      "--device emu",
      driver.error().message, subject.kernel.string(), record.verdict.task,
      record.verdict.direction == task::Direction::kBackward ? " --backward" : "");
}

/// The emulator's part of a record of both engines, as a record of its own.
Subject EmulatorsPart(const Subject& subject) {
  Subject part = subject;
  part.record.verdict = subject.record.verdict.other_engines.front();
  part.record.json = subject.record.json["other_engines"][0];
  part.task = WithSizesOf(part.record.verdict.provenance.asked, subject.task);
  return part;
}

/// The verdict as JSON, with the record's task name and seed origin. These may differ; the task was
/// already checked by its hash.
Json Comparable(records::Verdict verdict, const judge::Record& record) {
  verdict.task = record.verdict.task;
  verdict.seed_origin = record.verdict.seed_origin;
  for (records::Verdict& other : verdict.other_engines) {
    other.task = verdict.task;
    other.seed_origin = verdict.seed_origin;
  }
  return records::ToJson(verdict);
}

/// Adds how the repetition of `record` differs.
void Compare(const judge::Record& record, const records::Verdict& again, bool is_exact,
             Verification& result) {
  const Json now = Comparable(again, record);
  const auto extent = is_exact ? judge::Extent::kAll : judge::Extent::kBounds;
  result.by_other_version = IsByOtherVersion(CheckTools(record, again));
  result.exactly = is_exact && !result.by_other_version;
  result.differences = judge::CompareRecords(
      record.json, now, result.by_other_version ? judge::Extent::kVerdict : extent);
  if (result.by_other_version && result.differences.empty())
    result.changes = judge::CompareRecords(record.json, now, extent);
}

Json ToJson(const std::vector<judge::Difference>& differences) {
  Json list = Json::array();
  for (const judge::Difference& difference : differences) {
    list.push_back(
        Json{{"where", difference.where}, {"then", difference.then}, {"now", difference.now}});
  }
  return list;
}

/// Whether all checks that decide are the same.
bool AreSame(const std::vector<RecordCheck>& checks) {
  return std::all_of(checks.begin(), checks.end(),
                     [](const RecordCheck& check) { return check.IsSame() || !check.decides; });
}

}  // namespace

bool Verification::Holds() const {
  return !repeated.empty() && differences.empty() && AreSame(checks);
}

bool Verification::IsNotRepeated() const {
  return !why_not_repeated.empty() && differences.empty() && AreSame(checks);
}

Result<Verification> Verify(const VerifyOptions& options, const fs::path& file_of_record,
                            Events& events) {
  TRY_ASSIGN(const Subject subject, FindSubject(options, file_of_record));
  const judge::Record& record = subject.record;
  Verification result;
  result.record = file_of_record.string();
  result.verdict = records::Name(record.verdict.decision);
  result.kernel = subject.kernel.string();
  result.task = fmt::format("{} {}", record.verdict.task, task::Name(record.verdict.direction));
  TRY_ASSIGN(result.checks, CheckEvidence(subject));
  // For another kernel or task, repeating the verdict makes no sense.
  const auto same = [&](size_t i) { return result.checks[i].IsSame(); };
  if (same(2) && same(3)) result.why_not_repeated = WhatIsMissing(record, subject);
  if (same(2) && same(3) && result.why_not_repeated.empty()) {
    TRY_ASSIGN(const records::Verdict again, Repeat(options, subject, events));
    for (RecordCheck& check : CheckTools(record, again)) result.checks.push_back(std::move(check));
    result.repeated = records::Name(again.decision);
    Compare(record, again, record.verdict.provenance.asked.engine == "emu", result);
  }
  if (!result.why_not_repeated.empty() && !record.verdict.other_engines.empty()) {
    const Subject part = EmulatorsPart(subject);
    VerifyOptions emulated = options;
    emulated.common.device = "emu";
    TRY_ASSIGN(const records::Verdict again, Repeat(emulated, part, events));
    Compare(part.record, again, true, result);
    if (result.differences.empty()) {
      result.why_not_repeated += result.changes.empty()
                                     ? "; the emulator's part was repeated, and is the same"
                                     : "; the emulator's part was repeated, and has the same "
                                       "verdict, but other numbers";
    } else {
      result.repeated = records::Name(again.decision);
    }
  }
  return result;
}

Json ToJson(const Verification& result) {
  Json json{{"schema", "cupel.verification/1"},
            {"record", result.record},
            {"holds", result.Holds()},
            {"verdict", result.verdict},
            {"kernel", result.kernel},
            {"task", result.task},
            {"checks", Json::array()},
            {"repeated", result.repeated},
            {"exactly", result.exactly},
            {"not_repeated", result.why_not_repeated},
            {"by_other_version", result.by_other_version},
            {"differences", ToJson(result.differences)},
            {"changes", ToJson(result.changes)}};
  for (const RecordCheck& check : result.checks) {
    json["checks"].push_back(Json{{"name", check.name},
                                  {"same", check.IsSame()},
                                  {"decides", check.decides},
                                  {"then", check.then},
                                  {"now", check.now}});
  }
  return json;
}

void Verifications::Add(const std::string& record, const Result<Verification>& result) {
  if (!result) {
    ++failed_;
    records_.push_back(Json{{"record", record},
                            {"holds", false},
                            {"error", result.error().message},
                            {"remedy", result.error().remedy}});
    return;
  }
  ++(result->Holds() ? verified_ : result->IsNotRepeated() ? not_repeated_ : contradicted_);
  records_.push_back(app::ToJson(*result));
}

Json Verifications::ToJson() const {
  return {{"schema", "cupel.verifications/1"},
          {"holds", contradicted_ + not_repeated_ + failed_ == 0},
          {"verified", verified_},
          {"contradicted", contradicted_},
          {"not_repeated", not_repeated_},
          {"failed", failed_},
          {"records", records_}};
}

}  // namespace cupel::app
