// SPDX-License-Identifier: Apache-2.0
#include "assay/assay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <utility>

#include "assay/configurations.h"
#include "assay/declared.h"
#include "assay/exploration.h"
#include "assay/judging_state.h"
#include "assay/loaded_images.h"
#include "assay/own_part.h"
#include "assay/proof_section.h"
#include "assay/provenance.h"
#include "assay/refused_sizes.h"
#include "assay/setting_judge.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/version.h"
#include "build/build.h"
#include "build/is_one_of.h"
#include "build/source_scan.h"
#include "judge/both_engines.h"
#include "os/files.h"

namespace cupel::assay {
namespace {

void AddNote(records::Verdict& verdict, const std::string& note) {
  if (!build::IsOneOf(verdict.notes, note)) verdict.notes.push_back(note);
}

/// Adds what the builds of a candidate's code say.
void AddImages(records::Verdict& verdict, const build::Images& images) {
  for (const auto& image : images) {
    verdict.toolkit = image->toolkit;
    verdict.flags = image->flags;
    for (const build::KernelResources& kernel : image->resources) {
      const auto is_same = [&](const auto& known) { return known.kernel == kernel.kernel; };
      if (std::none_of(verdict.resources.begin(), verdict.resources.end(), is_same)) {
        verdict.resources.push_back(kernel);
      }
    }
    for (const std::string& note : image->notes) AddNote(verdict, note);
  }
}

/// Names the files of a candidate that has several.
void ListFiles(records::Verdict& verdict, const Candidate& candidate) {
  if (candidate.sources == nullptr) return;
  for (const build::SourceFile& file : candidate.sources->files) {
    verdict.files.push_back({file.name, Sha256Hex(file.text), file.is_compiled});
  }
}

/// A verdict with everything that is known before judging.
records::Verdict Begin(const Candidate& candidate, const Question& question,
                       const engine::Engine& engine, uint64_t seed) {
  records::Verdict verdict;
  verdict.decision = records::Decision::kRejected;
  verdict.task = question.task->name;
  verdict.direction = question.direction;
  verdict.kernel_path = candidate.path.string();
  verdict.device = DeviceOf(engine);
  verdict.seed = seed;
  verdict.seed_origin = question.seed && !question.seed_is_secret ? records::SeedOrigin::kUser
                                                                  : records::SeedOrigin::kEntropy;
  verdict.trials = question.trials;
  verdict.task_hash = question.task->content_hash[static_cast<int>(question.direction)];
  verdict.cupel_version = kVersion;
  verdict.image_key = ImageKeyOf(candidate);
  ListFiles(verdict, candidate);
  if (const build::Images* images = candidate.images()) {
    const build::Image& first = *images->front();
    verdict.source_hash = first.source_hash;
    verdict.build_seconds = first.from_cache ? 0 : first.build_seconds;
    AddImages(verdict, *images);
  } else if (const auto* program = std::get_if<PythonProgram>(&candidate.built)) {
    verdict.source_hash = program->source_hash;
  } else {
    verdict.source_hash = std::get<build::BuildFailure>(candidate.built).source_hash;
  }
  return verdict;
}

/// Adds a note for each setting of which only a sample of blocks was emulated.
void NoteSamples(records::Verdict& verdict) {
  for (const records::SettingReport& setting : verdict.settings) {
    size_t sampled = 0;
    uint64_t emulated = UINT64_MAX, all = 0;
    for (const records::TrialReport& trial : setting.trials) {
      if (trial.emulated_blocks >= trial.all_blocks) continue;
      ++sampled;
      emulated = std::min(emulated, trial.emulated_blocks);
      all = trial.all_blocks;
    }
    if (sampled == 0) continue;
    verdict.notes.push_back(fmt::format(
        "only {} of {} blocks were emulated at {} in {} of {} trials; the elements that they wrote "
        "were compared with the truth{}",
        emulated, all, setting.id, sampled, setting.trials.size(),
        sampled == setting.trials.size()
            ? "; no trial emulated all blocks, so elements that no block writes are not detected"
            : ""));
  }
}

/// Fast math does not make larger errors, in units of the limit. The largest that it makes is
/// tanh.approx's: 2^-11 of the result.
constexpr double kMostOfFastMath = 4096;

/// The largest error of a judged call, in units of its limit.
double LargestError(const records::Verdict& verdict) {
  double largest = 0;
  for (const records::SettingReport& setting : verdict.settings) {
    for (const records::TrialReport& trial : setting.trials) {
      for (const auto& output : trial.outputs) {
        largest = std::max(largest, output.Severity());
      }
    }
  }
  return largest;
}

/// If numbers are wrong and fast math may be the cause, says so in the reason.
void AddFastMathNote(records::Verdict& verdict, const build::Image& image,
                     const std::string& source, bool is_program) {
  const auto is_numeric = [](const records::Reason& reason) {
    return reason.code == "wrong_result" || reason.code == "not_equivalent";
  };
  const auto reason = std::find_if(verdict.reasons.begin(), verdict.reasons.end(), is_numeric);
  if (reason == verdict.reasons.end() || LargestError(verdict) > kMostOfFastMath) return;
  const std::string note = build::FastMathNote(source, image.ptx, image.flags, is_program);
  if (!note.empty()) reason->message += ".\n" + note;
}

/// Adds what is known about a Python program's extensions after a call was recorded.
void AddExtensions(records::Verdict& verdict, const SettingResult& result) {
  AddImages(verdict, result.images);
  for (const std::string& note : result.notes) AddNote(verdict, note);
  if (result.plan && result.plan->prepared > 0) {
    AddNote(verdict, fmt::format("{} steps of the program's construction are repeated before "
                                 "every call, and are not part of estimates",
                                 result.plan->prepared));
  }
}

/// The files that may declare sizes. Error: the source has changed since it was built.
Result<std::vector<build::SourceFile>> TextsOf(const Candidate& candidate,
                                               const std::string& source_hash) {
  if (candidate.sources != nullptr) return candidate.sources->files;
  const build::Images* images = candidate.images();
  TRY_ASSIGN(build::SourceFile file,
             ReadBuilt(images != nullptr ? images->front()->source : candidate.path, source_hash));
  return std::vector<build::SourceFile>{std::move(file)};
}

/// The text of an image's file.
std::string TextOf(const build::Image& image, const std::vector<build::SourceFile>& texts) {
  for (const build::SourceFile& file : texts) {
    if (texts.size() == 1 || file.name == image.source_name) return file.text;
  }
  return {};
}

/// True if running further settings would only waste time: the code hangs or cannot be run at all.
bool EndsJudging(const records::SettingReport& report, const Question& question) {
  const bool hangs = std::any_of(
      report.findings.begin(), report.findings.end(), [](const records::Finding& finding) {
        return finding.code == "instruction_budget" || finding.code == "deadlock" ||
               finding.code == "time_out" || finding.code == "gpu_fault";
      });
  // Host code may refuse some sizes and be right at others.
  const bool is_broken = std::ranges::any_of(report.problems, [](const records::Reason& problem) {
    return problem.code != "host_exception";
  });
  return hangs || is_broken ||
         (question.stop_at_first_failure && report.status == records::SettingStatus::kFailed);
}

}  // namespace

namespace {

void ChangeEmulators(Question& question, const std::function<void(Question&)>& change) {
  if (question.emulator == nullptr) return;
  auto other = std::make_shared<EmulatorQuestion>(*question.emulator);
  other->question.task = &other->task;
  change(other->question);
  question.emulator = std::move(other);
}

}  // namespace

void Change(Question& question, const std::function<void(Question&)>& change) {
  change(question);
  ChangeEmulators(question, change);
}

void UseCasesOf(const records::Verdict& verdict, Question& question) {
  question.run_seed = verdict.seed;
  for (const records::SettingReport& setting : verdict.settings) {
    if (!setting.cases.empty()) question.given[setting.id] = setting.cases;
  }
  if (verdict.other_engines.empty()) return;
  ChangeEmulators(question, [&](Question& one) { UseCasesOf(verdict.other_engines.front(), one); });
}

std::vector<const task::Setting*> Chosen(const Question& question) {
  std::vector<const task::Setting*> chosen;
  for (const task::Setting& setting : question.task->SettingsOf(question.direction)) {
    if (question.kinds.empty() || std::find(question.kinds.begin(), question.kinds.end(),
                                            setting.kind) != question.kinds.end()) {
      chosen.push_back(&setting);
    }
  }
  return chosen;
}

Result<std::vector<const task::Setting*>> SomeChosen(const Question& question) {
  std::vector<const task::Setting*> settings = Chosen(question);
  if (settings.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("task {} has no settings of the requested kind for its {} direction",
                            question.task->name, task::Name(question.direction)),
                "choose another --settings value");
  }
  return settings;
}

std::string ImageKeyOf(const Candidate& candidate) {
  if (const build::Images* images = candidate.images()) return images->front()->key;
  const auto* program = std::get_if<PythonProgram>(&candidate.built);
  return program != nullptr ? program->source_hash : "";
}

Result<Candidate> BuildCandidate(const std::filesystem::path& kernel, const build::Options& options,
                                 const std::vector<std::filesystem::path>& more) {
  if (build::HasSeveralFiles(kernel, more)) {
    TRY_ASSIGN(build::Sources sources, build::OpenSources(kernel, more, options.include_roots));
    // "folder/" has no file name.
    return BuildCandidate(kernel.has_filename() ? kernel : kernel.parent_path(), std::move(sources),
                          options);
  }
  if (kernel.extension() == ".py") {
    TRY_ASSIGN(const std::string source, os::ReadFile(kernel, build::kMaxSourceBytes));
    return Candidate{kernel, PythonProgram{Sha256Hex(source)}, options};
  }
  TRY_ASSIGN(build::Outcome outcome, build::Build(kernel, options));
  Candidate candidate{kernel, {}, options};
  if (auto* image = std::get_if<build::Image>(&outcome)) {
    candidate.built = build::OneImage(std::move(*image));
  } else {
    candidate.built = std::get<build::BuildFailure>(std::move(outcome));
  }
  return candidate;
}

Result<Candidate> BuildCandidate(const std::filesystem::path& kernel, build::Sources sources,
                                 build::Options options) {
  // Headers below the candidate's folder are among its files.
  std::erase_if(options.include_roots, [&](const std::filesystem::path& root) {
    const auto name = root.lexically_normal().lexically_relative(sources.root).string();
    return build::IsOneOf(sources.folders, name);
  });
  if (build::IsLaunchDescription(sources)) {
    Candidate program{kernel, PythonProgram{build::HashOf(sources)}, std::move(options)};
    program.sources = std::make_shared<const build::Sources>(std::move(sources));
    return program;
  }
  TRY_ASSIGN(build::SourcesOutcome outcome, build::Build(sources, options));
  Candidate candidate{kernel, {}, std::move(options)};
  candidate.sources = std::make_shared<const build::Sources>(std::move(sources));
  std::visit([&](auto& built) { candidate.built = std::move(built); }, outcome);
  return candidate;
}

Result<Candidate> Assay::Build(const std::filesystem::path& kernel) const {
  return BuildCandidate(kernel, parts_.build);
}

namespace {

/// Adds a limit to an accepted verdict if the host code's work does not follow PyTorch's current
/// stream, or the host code fails with another one.
Status TryOtherStream(record::CallRecorder& recorder, records::Verdict& verdict) {
  if (!verdict.accepted()) return {};
  TRY_ASSIGN(const auto refusal, recorder.RecordOnOtherStream());
  if (!refusal) return {};
  std::string what;
  if (refusal->code == "host_exception") {
    what = fmt::format("fails if PyTorch's current stream is not the default stream: {}",
                       refusal->message);
  } else if (refusal->code == "unordered_work") {
    what = fmt::format(
        "ignores PyTorch's current stream: if that is not the default stream, {} (use "
        "at::cuda::getCurrentCUDAStream(), or aoti_torch_get_current_cuda_stream of the stable "
        "ABI)",
        refusal->message);
  } else {
    return {};
  }
  verdict.exploration.limits.push_back({std::string(records::kCurrentStream), std::move(what)});
  return {};
}

Result<Judged> JudgeOnEngine(const Parts& parts, const Candidate& candidate,
                             const Question& question) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t seed = question.seed ? *question.seed : question.run_seed.value_or(EntropySeed());
  Judged judged;
  records::Verdict& verdict = judged.verdict;
  std::optional<os::SandboxReport> sandbox;  // the recorder's
  std::set<std::string>& launched = judged.launched;
  verdict = Begin(candidate, question, *parts.engine, seed);
  const auto finish = [&] {
    verdict.provenance = ProvenanceOf(candidate, question, parts, sandbox);
    verdict.not_checked = NotChecked(verdict, question, launched);
    AddOwnSizesLimit(verdict);
    verdict.total_seconds = SecondsSince(start);
    return std::move(judged);
  };

  if (const auto* failure = std::get_if<build::BuildFailure>(&candidate.built)) {
    AddReason(verdict, DecisionFor(failure->unsupported),
              {failure->code, failure->message, failure->where});
    return finish();
  }
  const build::Images* images = candidate.images();

  TRY_ASSIGN(const std::vector<const task::Setting*> settings, SomeChosen(question));
  TRY_ASSIGN(const auto texts, TextsOf(candidate, verdict.source_hash));
  auto claimed = ReadClaim(texts, settings);
  if (auto* reason = std::get_if<records::Reason>(&claimed)) {
    AddReason(verdict, records::Decision::kRejected, std::move(*reason));
    return finish();
  }
  const auto& claim = std::get<Claim>(claimed);
  verdict.declared = claim.text;

  auto opened = JudgingState::Open(candidate, question, parts, seed);
  if (!opened) {
    if (!IsUnsupportedCode(opened.error())) return tl::unexpected(opened.error());
    AddReason(verdict, records::Decision::kUnsupported,
              {"unsupported_instruction", opened.error().message, ""});
    return finish();
  }
  JudgingState& state = **opened;
  const int steps = question.trials + (question.shadows || question.integers ? 1 : 0) +
                    (question.distributions.empty() ? 0 : 1);
  const int total = static_cast<int>(settings.size()) * steps;
  bool ended = false;
  std::vector<SearchedSetting> searched;
  size_t searches = 0;
  for (size_t i = 0; i < settings.size(); ++i) {
    const task::Setting* setting = settings[i];
    if (ended || !claim.covered[i]) {
      records::SettingReport skipped;
      if (!claim.covered[i]) skipped.status = records::SettingStatus::kNotDeclared;
      skipped.derived = setting->derived;
      skipped.reduced = setting->reduced;
      skipped.id = setting->id;
      skipped.kind = setting->kind;
      skipped.description = setting->Describe();
      verdict.settings.push_back(std::move(skipped));
      continue;
    }
    SettingContext context = state.At(*setting);
    int done = static_cast<int>(i) * steps;
    context.begin_trial = [&](const std::string& stage) {
      parts.Show({stage, done++, total, "trials"});
    };
    TRY_ASSIGN(SettingResult result, JudgeSetting(context));
    sandbox = state.recorder().sandbox();
    if (images == nullptr) AddExtensions(verdict, result);
    if (result.report.passed() && result.searches.size() > searches) {
      const auto first = result.searches.begin() + static_cast<ptrdiff_t>(searches);
      searched.push_back({setting,
                          result.report.cases.front(),
                          {first, result.searches.end()},
                          judged.planned_setting.empty()});
      searches = result.searches.size();
    }
    if (!result.torch_version.empty()) verdict.torch_version = result.torch_version;
    if (!judged.plan && result.plan) {
      judged.plan = std::move(result.plan);
      judged.images = std::move(result.images);
      judged.planned_setting = setting->id;
    }
    ended = EndsJudging(result.report, question);
    // The task does not allow this derived size, and no one requested it.
    if (!setting->derived.empty() && result.report.status == records::SettingStatus::kNoReference)
      continue;
    verdict.settings.push_back(std::move(result.report));
  }

  TRY_ASSIGN(auto rechecked, state.recorder().Recheck());
  if (const auto* refusal = std::get_if<record::Refusal>(&rechecked)) {
    AddReason(verdict, DecisionFor(refusal->unsupported),
              {refusal->code, refusal->message, refusal->where});
  }
  JudgeOperators(verdict, question, state.operators, state.own_work.kernels);
  NoteSamples(verdict);
  verdict = judge::Decide(std::move(verdict));
  NameRefusedSizes(verdict, settings);
  if (images == nullptr && state.operators.empty()) JudgeCopies(verdict, state.own_work);
  launched = std::move(state.launched);
  if (!searched.empty() && verdict.decision == records::Decision::kAccepted) {
    TRY(TryConfigurations(candidate, question, parts, searched, seed, verdict));
  }
  if (question.explores && verdict.decision == records::Decision::kAccepted) {
    Explored explored{{}, claim.declaration, seed};
    for (size_t i = 0; i < settings.size(); ++i) {
      if (claim.covered[i]) explored.settings.push_back(settings[i]);
    }
    TRY(Explore(candidate, question, parts, explored, verdict, launched));
    TRY(TryOtherStream(state.recorder(), verdict));
  }
  if (question.proves && verdict.accepted()) TRY(AddProof(parts, candidate, question, verdict));
  const bool is_program = images == nullptr;
  for (const auto& image : is_program ? judged.images : *images) {
    AddFastMathNote(verdict, *image, TextOf(*image, texts), is_program);
  }
  return finish();
}

/// Judges what is left if the emulator's verdict is known. A rejected candidate may hang a GPU or
/// damage its memory, so with `stop_at_first_failure` it does not get there.
Result<Judged> CombineEngines(const Question& question, Judged emulated,
                              const std::function<Result<Judged>()>& judge_on_gpu) {
  const EmulatorQuestion& other = *question.emulator;
  const bool ends = question.stop_at_first_failure && !emulated.verdict.accepted();
  if (other.alone || ends) return emulated;
  TRY_ASSIGN(Judged both, judge_on_gpu());
  both.launched.merge(emulated.launched);
  RemoveOwnSizesLimit(emulated.verdict);  // the GPU judged them
  both.verdict = judge::Combine(std::move(both.verdict), std::move(emulated.verdict));
  both.verdict.not_checked =
      NotChecked(both.verdict.other_engines.front(), other.question, both.launched, true);
  return both;
}

}  // namespace

Result<Judged> Assay::JudgeAfter(const Candidate& candidate, const Question& question,
                                 Judged emulated) {
  const auto start = std::chrono::steady_clock::now();
  TRY_ASSIGN(Judged judged, CombineEngines(question, std::move(emulated), [&] {
               return JudgeOnEngine(parts_, candidate, question);
             }));
  judged.verdict.total_seconds = SecondsSince(start);
  return judged;
}

Result<Judged> Assay::Judge(const Candidate& candidate, const Question& question) {
  const bool is_built = !std::holds_alternative<build::BuildFailure>(candidate.built);
  if (question.emulator == nullptr || parts_.emulator == nullptr || !is_built) {
    return JudgeOnEngine(parts_, candidate, question);
  }
  const auto start = std::chrono::steady_clock::now();
  const bool one_by_one = question.stop_at_first_failure || question.emulator->alone ||
                          parts_.emulator->oracle == parts_.oracle;
  // Started here if both may work at the same time, otherwise when its result is asked for.
  auto on_gpu =
      std::async(one_by_one ? std::launch::deferred : std::launch::async,
                 [&]() -> Result<Judged> { return JudgeOnEngine(parts_, candidate, question); });
  TRY_ASSIGN(Judged emulated,
             JudgeOnEngine(*parts_.emulator, candidate, question.emulator->question));
  TRY_ASSIGN(Judged judged,
             CombineEngines(question, std::move(emulated), [&] { return on_gpu.get(); }));
  judged.verdict.total_seconds = SecondsSince(start);
  return judged;
}

}  // namespace cupel::assay
