// `cupel build`: shows diagnostics and resources.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/build.h"

#include <fmt/format.h>

#include <cstdio>
#include <variant>

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

int Report(const build::Image& image, bool quiet) {
  fmt::print("built {} for {} in {:.2f} s{}\n", image.source.string(), image.arch,
             image.build_seconds, image.from_cache ? " (from the cache)" : "");
  if (quiet) return 0;
  for (const build::KernelResources& kernel : image.resources) {
    fmt::print("  {}\n    {} registers, {} B shared, {} B local, spills {} B stored {} B loaded\n",
               ptx::Demangle(kernel.kernel), kernel.registers, kernel.static_shared,
               kernel.local_bytes, kernel.spill_stores, kernel.spill_loads);
  }
  Print(image.warnings);
  for (const std::string& note : image.notes) {
    fmt::print("  note: {}\n", Printable(note));
  }
  return 0;
}

int Report(const build::BuildFailure& failure, bool quiet) {
  fmt::print("does not build: {}{}{}\n", Printable(failure.where),
             failure.where.empty() ? "" : ": ", Printable(failure.message));
  if (!quiet) Print(failure.diagnostics);
  return failure.unsupported ? 3 : 1;
}

}  // namespace

Result<int> Run(const BuildCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const build::Outcome outcome, app::Build(command, view));
  const int status =
      std::visit([&](const auto& result) { return Report(result, command.show.quiet); }, outcome);
  TRY(WriteJson(command.show.json, app::ToJson(outcome, command.kernel)));
  return status;
}

}  // namespace cupel::cli
