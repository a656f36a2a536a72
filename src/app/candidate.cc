// SPDX-License-Identifier: Apache-2.0
#include "app/candidate.h"

#include <fmt/format.h>

#include <optional>

#include "app/session.h"
#include "build/flags.h"
#include "build/sources.h"
#include "device/device.h"
#include "os/path.h"
#include "trace/setup_script.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

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

Status RequireOneFile(const fs::path& kernel) {
  if (!os::IsFolder(kernel)) return {};
  return Fail(
      ErrorCode::kUnsupported,
      fmt::format("unsupported: {} is a folder, and this command takes one file", kernel.string()),
      "build, check, verify, bench, stream, profile and suite take several files");
}

Status RequireCudaFile(const fs::path& kernel, const OneFileOnly& reason) {
  TRY(RequireOneFile(kernel));
  if (kernel.extension() != ".py") return {};
  return Fail(ErrorCode::kUnsupported,
              fmt::format("unsupported: {} is a Python program, and {}", kernel.filename().string(),
                          reason.why),
              reason.remedy);
}

Result<assay::Candidate> BuildCandidate(const fs::path& kernel, const Common& common,
                                        const Compile& compile, Events& events) {
  TRY_ASSIGN(const build::Options options, CompilerOptions(common, compile, events));
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

}  // namespace cupel::app
