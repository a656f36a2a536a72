// SPDX-License-Identifier: Apache-2.0
#include "app/check/build.h"

#include <optional>
#include <utility>

#include "app/candidate.h"
#include "app/session.h"
#include "build/build.h"

namespace cupel::app {
namespace {

Json ToJson(const std::vector<build::Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const build::Diagnostic& d : diagnostics) {
    list.push_back(Json{{"severity", SeverityName(d.severity)},
                        {"file", d.file},
                        {"line", d.line},
                        {"message", d.message}});
  }
  return list;
}

void Describe(const build::Image& image, Json& json) {
  json["built"] = true;
  json["image"] = image.key;
  json["source_hash"] = image.source_hash;
  json["toolkit"] = image.toolkit;
  json["arch"] = image.arch;
  json["flags"] = image.flags;
  json["notes"] = image.notes;
  json["diagnostics"] = ToJson(image.warnings);
  json["kernels"] = Json::array();
  for (const build::KernelResources& kernel : image.resources) {
    json["kernels"].push_back(Json{{"name", kernel.kernel},
                                   {"registers", kernel.registers},
                                   {"static_shared", kernel.static_shared},
                                   {"local_bytes", kernel.local_bytes},
                                   {"spill_stores", kernel.spill_stores},
                                   {"spill_loads", kernel.spill_loads},
                                   {"constant_bytes", kernel.constant_bytes}});
  }
}

void Describe(const build::BuildFailure& failure, Json& json) {
  json["built"] = false;
  json["reasons"] = Json::array(
      {Json{{"code", failure.code}, {"message", failure.message}, {"where", failure.where}}});
  json["diagnostics"] = ToJson(failure.diagnostics);
}

}  // namespace

const char* SeverityName(build::Diagnostic::Severity severity) {
  switch (severity) {
    case build::Diagnostic::Severity::kError:
      return "error";
    case build::Diagnostic::Severity::kWarning:
      return "warning";
    case build::Diagnostic::Severity::kNote:
      return "note";
  }
  return "error";
}

Result<build::Outcome> Build(const BuildOptions& options, Events& events) {
  Compile compile = options.compile;
  std::optional<task::Task> task;
  if (!options.task.empty()) {
    TRY_ASSIGN(task::Task named, LoadTarget(Target{.task = options.task}, options.common));
    task.emplace(std::move(named));
  }
  TRY_ASSIGN(const CandidateFile file,
             ExtractCandidate(options.kernel, task ? &*task : nullptr, task::Direction::kForward,
                              options.common, compile, events));
  TRY_ASSIGN(const build::Options compiling, CompilerOptions(options.common, compile));
  TRY_ASSIGN(build::Outcome outcome, build::Build(file.path, compiling));
  if (auto* image = std::get_if<build::Image>(&outcome)) image->source = options.kernel;
  return outcome;
}

Json ToJson(const build::Outcome& outcome, const std::filesystem::path& kernel) {
  Json json{{"schema", "cupel.build/1"}, {"kernel", kernel.string()}};
  std::visit([&](const auto& result) { Describe(result, json); }, outcome);
  return json;
}

}  // namespace cupel::app
