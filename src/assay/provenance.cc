// SPDX-License-Identifier: Apache-2.0
#include "assay/provenance.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>

#include "assay/exploration.h"
#include "base/demangle.h"
#include "base/hash.h"
#include "base/lanes.h"
#include "base/name_some.h"
#include "base/text.h"
#include "base/version.h"
#include "build/cache.h"
#include "oracle/scripts.h"
#include "os/files.h"
#include "os/mapped_file.h"
#include "task/allowed_operators.h"

namespace cupel::assay {
namespace {

constexpr size_t kNamed = 4;      // settings or kernels listed in a sentence
constexpr size_t kMostWhy = 200;  // bytes of a reason

std::string Processor() {
  const std::string text = os::ReadFile("/proc/cpuinfo", 4u << 20).value_or("");
  for (const std::string_view line : SplitLines(text)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return std::string(line.substr(colon + 2));
    }
  }
  return {};
}

void DescribeMachine(records::Provenance& provenance) {
  utsname info{};
  if (uname(&info) == 0) {
    provenance.host = info.nodename;
    provenance.system = fmt::format("{} {} {}", info.sysname, info.release, info.machine);
  }
  static const std::string processor = Processor();
  provenance.processor = processor;
  provenance.cores = static_cast<int>(Cores());
}

records::Asked AskedOf(const Candidate& candidate, const Question& question, const Parts& parts) {
  records::Asked asked;
  asked.task = question.task->path.string();
  asked.kinds = question.kinds;
  asked.trials = question.trials;
  asked.shadows = question.shadows;
  asked.integers = question.integers;
  asked.schedules = question.schedules;
  asked.explores = question.explores;
  asked.proves = question.proves;
  asked.strict_layouts = question.strict_layouts;
  asked.few_inputs = question.few_inputs;
  asked.reduced = question.task->reduced;
  for (const task::Distribution distribution : question.distributions) {
    asked.distributions.emplace_back(Name(distribution));
  }
  asked.operators = task::Text(question.operators);
  asked.compile_seconds = static_cast<int>(candidate.built_with.deadline.count());
  asked.engine = parts.engine->Name();
  asked.model = parts.engine->Device().name;
  const build::Options& build = candidate.built_with;
  const build::Images* images = candidate.images();
  asked.arch = images != nullptr ? images->front()->arch : build.arch;
  asked.flags = build.flags;
  for (const auto& root : build.include_roots) asked.include_roots.push_back(root.string());
  if (candidate.sources != nullptr) asked.include_folders = candidate.sources->folders;
  return asked;
}

/// The hashes of what was built. Of several images: a hash of their hashes, in their order.
void AddEvidence(const build::Images& images, records::Provenance& provenance) {
  std::string ptx, cubin;
  for (const auto& image : images) {
    auto evidence = build::EvidenceOf(*image);
    if (!evidence) return;
    provenance.shared_object_hash = std::move(evidence->shared_object_hash);
    provenance.compiler = std::move(evidence->sandbox);
    ptx += evidence->ptx_hash;
    cubin += evidence->cubin_hash;
  }
  provenance.ptx_hash = images.size() == 1 ? ptx : Sha256Hex(ptx);
  provenance.cubin_hash = images.size() == 1 ? cubin : Sha256Hex(cubin);
}

/// Adds kernels that were never launched: "2 of 7 kernels, …: Tail<4>, Wide<float>".
void AddUnlaunchedKernels(const records::Verdict& verdict, const std::set<std::string>& launched,
                          std::vector<std::string>& list) {
  std::vector<std::string> idle;
  for (const build::KernelResources& kernel : verdict.resources) {
    if (!launched.contains(kernel.kernel)) idle.push_back(BriefName(Demangle(kernel.kernel)));
  }
  if (idle.empty()) return;
  list.push_back(fmt::format("{} of {} kernels, which no call at these sizes launched: {}",
                             idle.size(), verdict.resources.size(), NameSome(idle, kNamed)));
}

/// Settings of the task that say nothing about the kernel: "2 of 4 settings, where wrong answers
/// pass: multi-0, multi-3 (tail_rows_zero passes …)".
void AddSettingsWithout(const records::Verdict& verdict, records::SettingStatus status,
                        const char* what, std::vector<std::string>& list) {
  std::vector<std::string> ids;
  std::string why;
  size_t all = 0;
  for (const records::SettingReport& setting : verdict.settings) {
    if (!setting.derived.empty() || IsExplored(setting)) continue;
    ++all;
    if (setting.status != status) continue;
    if (ids.empty()) why = setting.note.substr(0, setting.note.find('\n'));
    ids.push_back(setting.id);
  }
  if (ids.empty()) return;
  if (why.size() > kMostWhy) why = why.substr(0, kMostWhy) + "…";
  list.push_back(fmt::format("{} of {} settings, where {}: {}{}", ids.size(), all, what,
                             NameSome(ids, kNamed), why.empty() ? "" : " (" + why + ")"));
}

/// "exact arithmetic at single-0 (3 times too large)": one text for all settings with the same
/// reason.
void AddUntried(const records::Verdict& verdict, const char* what,
                std::string records::Established::* note, std::vector<std::string>& list) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const records::SettingReport& setting : verdict.settings) {
    const std::string& why = setting.established.*note;
    if (setting.status != records::SettingStatus::kPassed || why.empty()) continue;
    auto known = std::find_if(reasons.begin(), reasons.end(),
                              [&](const auto& entry) { return entry.first == why; });
    if (known == reasons.end()) known = reasons.insert(reasons.end(), {why, {}});
    known->second.push_back(setting.id);
  }
  for (const auto& [why, settings] : reasons) {
    list.push_back(fmt::format("{} at {} ({})", what, NameSome(settings, kNamed), why));
  }
}

}  // namespace

const std::string& ProgramHash() {
  static const std::string hash = [] {
    const auto file = os::MappedFile::Open("/proc/self/exe");
    return file ? Sha256Hex(file->text()) : std::string();
  }();
  return hash;
}

std::string DeviceOf(const engine::Engine& engine) {
  return fmt::format("{} ({})", engine.Name(), engine.Device().name);
}

records::Provenance ProvenanceOf(const Candidate& candidate, const Question& question,
                                 const Parts& parts,
                                 const std::optional<os::SandboxReport>& recorder) {
  records::Provenance provenance;
  provenance.asked = AskedOf(candidate, question, parts);
  if (const build::Images* images = candidate.images()) AddEvidence(*images, provenance);
  provenance.recorder = recorder;
  provenance.program_hash = ProgramHash();
  provenance.commit = Commit();
  provenance.shim_hash = build::FolderHash(parts.build.shim).value_or("");
  provenance.oracle_hash = oracle::ScriptsHash(parts.oracle_scripts).value_or("");
  DescribeMachine(provenance);
  if (auto state = parts.engine->State()) provenance.gpu = std::move(*state);
  return provenance;
}

std::vector<std::string> NotChecked(const records::Verdict& verdict, const Question& question,
                                    const std::set<std::string>& launched, bool beside_gpu) {
  std::vector<std::string> list;
  if (verdict.settings.empty()) return list;  // nothing was judged
  if (verdict.device.starts_with("gpu")) {
    list.emplace_back(
        "races, accesses out of bounds and reads of uninitialized memory, which only the emulator "
        "detects");
  } else if (!beside_gpu) {
    list.emplace_back("speed on a GPU");
  }
  if (!question.kinds.empty()) {
    const size_t all = question.task->SettingsOf(question.direction).size();
    if (verdict.settings.size() < all) {
      list.push_back(fmt::format("{} of the task's {} settings, which were not requested",
                                 all - verdict.settings.size(), all));
    }
  }
  AddSettingsWithout(verdict, records::SettingStatus::kNoReference,
                     "the task's own reference fails", list);
  AddSettingsWithout(verdict, records::SettingStatus::kCannotJudge, "wrong answers pass", list);
  AddUnlaunchedKernels(verdict, launched, list);
  if (!question.shadows) list.emplace_back("equality in exact arithmetic (not requested)");
  if (!question.integers) list.emplace_back("bit-equality on small integers (not requested)");
  if (question.distributions.empty()) {
    list.emplace_back("inputs that the task does not draw itself (not requested)");
  }
  const records::Exploration& explored = verdict.exploration;
  if (!question.explores) {
    list.emplace_back("sizes that no setting has (not requested)");
  } else if (!explored.note.empty()) {
    list.push_back(fmt::format("sizes that no setting has ({})", explored.note));
  }
  if (explored.unjudged > 0) {
    list.push_back(
        fmt::format("{} of {} kinds of work, which the host code requests at other sizes",
                    explored.unjudged, explored.kinds));
  }
  if (verdict.proof.outcome == "not proved") {
    list.push_back(
        fmt::format("equality as a function of real numbers beyond 2^-20 of the scale ({}: {})",
                    verdict.proof.setting, verdict.proof.message));
  }
  AddUntried(verdict, "equality in exact arithmetic", &records::Established::shadow_note, list);
  AddUntried(verdict, "bit-equality on small integers", &records::Established::exact_note, list);
  return list;
}

void AddOwnSizesLimit(records::Verdict& verdict) {
  if (!verdict.accepted()) return;
  // Without the sizes that were explored, and those that the candidate does not claim.
  const auto is_judged = [](const records::SettingReport& setting) {
    return !IsExplored(setting) && setting.status != records::SettingStatus::kNotDeclared;
  };
  const records::SettingReport* first = nullptr;
  int judged = 0, smaller = 0;
  for (const records::SettingReport& setting : verdict.settings) {
    if (!is_judged(setting)) continue;
    ++judged;
    if (setting.reduced.empty()) continue;
    ++smaller;
    if (first == nullptr) first = &setting;
  }
  if (first == nullptr) return;
  verdict.exploration.limits.push_back(
      {std::string(records::kOwnSizes),
       fmt::format(
           "was judged at smaller sizes than the task's own at {} of {} settings ({}: {}){} "
           "(use --full-size or a GPU for the task's own)",
           smaller, judged, first->id, first->reduced,
           verdict.exploration.recorded > 0
               ? "; at the task's own, only the launches and the addresses of some blocks "
                 "were checked"
               : "")});
}

void RemoveOwnSizesLimit(records::Verdict& verdict) {
  std::erase_if(verdict.exploration.limits,
                [](const records::SizeLimit& limit) { return limit.code == records::kOwnSizes; });
}

}  // namespace cupel::assay
