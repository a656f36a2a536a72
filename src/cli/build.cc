// `cupel build`: compiles one candidate and shows diagnostics and resources.
// SPDX-License-Identifier: Apache-2.0
#include "build/build.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "app/candidate.h"
#include "app/session.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "ptx/parser.h"
#include "report/text.h"

namespace cupel::cli {
namespace {

const char* Name(build::Diagnostic::Severity severity) {
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

Json ToJson(const std::vector<build::Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const build::Diagnostic& d : diagnostics) {
    list.push_back(Json{{"severity", Name(d.severity)},
                        {"file", d.file},
                        {"line", d.line},
                        {"message", d.message}});
  }
  return list;
}

void Print(const std::vector<build::Diagnostic>& diagnostics) {
  for (const build::Diagnostic& d : diagnostics) {
    fmt::print("  {}:{}: {}: {}\n", report::Printable(d.file), d.line, Name(d.severity),
               report::Printable(d.message));
  }
}

int Report(const build::Image& image, bool quiet, Json& json) {
  json["built"] = true;
  json["image"] = image.key;
  json["source_hash"] = image.source_hash;
  json["toolkit"] = image.toolkit;
  json["flags"] = image.flags;
  json["notes"] = image.notes;
  json["diagnostics"] = ToJson(image.warnings);
  json["kernels"] = Json::array();
  fmt::print("built {} in {:.2f} s{}\n", image.source.string(), image.build_seconds,
             image.from_cache ? " (from the cache)" : "");
  for (const build::KernelResources& kernel : image.resources) {
    json["kernels"].push_back(Json{{"name", kernel.kernel},
                                   {"registers", kernel.registers},
                                   {"static_shared", kernel.static_shared},
                                   {"local_bytes", kernel.local_bytes},
                                   {"spill_stores", kernel.spill_stores},
                                   {"spill_loads", kernel.spill_loads},
                                   {"constant_bytes", kernel.constant_bytes}});
    if (!quiet) {
      fmt::print(
          "  {}\n    {} registers, {} B shared, {} B local, spills {} B stored {} B loaded\n",
          ptx::Demangle(kernel.kernel), kernel.registers, kernel.static_shared, kernel.local_bytes,
          kernel.spill_stores, kernel.spill_loads);
    }
  }
  if (!quiet) {
    Print(image.warnings);
    for (const std::string& note : image.notes) {
      fmt::print("  note: {}\n", report::Printable(note));
    }
  }
  return 0;
}

int Report(const build::BuildFailure& failure, bool quiet, Json& json) {
  json["built"] = false;
  json["reasons"] = Json::array(
      {Json{{"code", failure.code}, {"message", failure.message}, {"where", failure.where}}});
  json["diagnostics"] = ToJson(failure.diagnostics);
  fmt::print("does not build: {}{}{}\n", report::Printable(failure.where),
             failure.where.empty() ? "" : ": ", report::Printable(failure.message));
  if (!quiet) Print(failure.diagnostics);
  return failure.unsupported ? 3 : 1;
}

}  // namespace

Result<int> Run(const BuildCommand& command) {
  ProgressView view(command.show.quiet);
  app::Compile compile = command.compile;
  std::optional<task::Task> task;
  if (!command.task.empty()) {
    TRY_ASSIGN(task::Task named, LoadTarget(app::Target{.task = command.task}, command.common));
    task.emplace(std::move(named));
  }
  TRY_ASSIGN(const app::CandidateFile file,
             OpenCandidate(command.kernel, task ? &*task : nullptr, task::Direction::kForward,
                           command.common, compile, view));
  TRY_ASSIGN(const build::Options options, app::CompilerOptions(compile));
  TRY_ASSIGN(build::Outcome outcome, build::Build(file.path, options));
  if (auto* image = std::get_if<build::Image>(&outcome)) image->source = command.kernel;
  Json json{{"schema", "cupel.build/1"}, {"kernel", command.kernel.string()}};
  const int status = std::visit(
      [&](const auto& result) { return Report(result, command.show.quiet, json); }, outcome);
  TRY(WriteJson(command.show.json, json));
  return status;
}

}  // namespace cupel::cli
