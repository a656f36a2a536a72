// `cupel build`: shows diagnostics and resources.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/build.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "ptx/parser.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

void Print(const std::vector<build::Diagnostic>& diagnostics) {
  for (const build::Diagnostic& d : diagnostics) {
    fmt::print("  {}:{}: {}: {}\n", Printable(d.file), d.line, app::SeverityName(d.severity),
               Printable(d.message));
  }
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    fmt::print("  note: {}\n", Printable(note));
  }
}

/// "", "extension op of ", "kernel of Triton add of ".
std::string SubjectOf(const app::BuiltCode& code) {
  if (code.name.empty()) return "";
  return fmt::format("{} {} of ", code.kind == "triton" ? "kernel of Triton" : code.kind,
                     Printable(code.name));
}

void Print(const app::BuiltCode& code, const build::Image& image, bool quiet) {
  fmt::print("built {}{} for {} in {:.2f} s{}\n", SubjectOf(code), Printable(image.source.string()),
             image.arch, image.build_seconds, image.from_cache ? " (from the cache)" : "");
  if (quiet) return;
  for (const build::KernelResources& kernel : image.resources) {
    fmt::print("  {}\n    {} registers, {} B shared, {} B local, spills {} B stored {} B loaded\n",
               Printable(ptx::Demangle(kernel.kernel)), kernel.registers, kernel.static_shared,
               kernel.local_bytes, kernel.spill_stores, kernel.spill_loads);
    for (const std::string& remark : kernel.remarks) {
      fmt::print("    ptxas: {}\n", Printable(remark));
    }
  }
  Print(image.warnings);
  PrintNotes(image.notes);
}

void Print(const app::BuiltCode& code, const build::BuildFailure& failure, bool quiet) {
  fmt::print("does not build: {}{}{}{}{}\n", code.name.empty() ? "" : Printable(code.name),
             code.name.empty() ? "" : ": ", Printable(failure.where),
             failure.where.empty() ? "" : ": ", Printable(failure.message));
  if (!quiet) Print(failure.diagnostics);
}

void Print(const app::BuildReport& report, bool quiet) {
  for (const app::BuiltCode& code : report.code) {
    if (const auto* failure = std::get_if<build::BuildFailure>(&code.built)) {
      Print(code, *failure, quiet);
      continue;
    }
    for (const auto& image : std::get<build::Images>(code.built)) Print(code, *image, quiet);
  }
  if (!quiet) PrintNotes(report.notes);
  if (!report.reason) return;
  const records::Reason& reason = *report.reason;
  fmt::print("{}: {}{}{} ({})\n",
             reason.code == "no_kernel" ? "does not build" : "cannot be recorded",
             Printable(reason.where), reason.where.empty() ? "" : ": ", Printable(reason.message),
             Printable(reason.code));
}

}  // namespace

Result<int> Run(const BuildCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::BuildReport report, app::Build(command, view));
  view.End();
  Print(report, command.show.quiet);
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  if (report.built()) return 0;
  return report.is_unsupported() ? 3 : 1;
}

}  // namespace cupel::cli
