// `cupel extract`: lists, prints or writes the code that a Python program brings.
// SPDX-License-Identifier: Apache-2.0
#include "app/check/extract.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "cli/progress.h"
#include "term/table.h"
#include "term/text.h"

namespace cupel::cli {
namespace {

std::string FileList(const app::ExtractReport& report) {
  term::Table table({{"file"}, {"bytes", term::Align::kRight}, {"kind"}, {"name"}});
  for (const app::ExtractedFile& file : report.files) {
    const bool is_ptx = file.kind == trace::ProgramCode::Kind::kTriton;
    table.Add({file.path, fmt::format("{}", file.text.size()),
               is_ptx ? "kernel of Triton" : "extension", Printable(file.name)});
  }
  return table.Render(0, "  ");
}

/// A terminal gets no control characters, and a file gets the text as it is.
void PrintSource(const std::string& text) {
  if (::isatty(STDOUT_FILENO) == 0) {
    fmt::print("{}", text);
    return;
  }
  for (const std::string_view line : SplitLines(text)) fmt::print("{}\n", Printable(line));
}

/// The exit status says whether all code of the program was found.
int Report(const app::ExtractReport& report) {
  if (!report.refusal) {
    if (!report.files.empty()) return 0;
    fmt::print("The program brings no code: it asks cupel to compile nothing.\n");
    return 1;
  }
  fmt::print(stderr, "The program cannot be recorded, so it may bring more code: {}{}{} ({})\n",
             Printable(report.refusal->where), report.refusal->where.empty() ? "" : ": ",
             Printable(report.refusal->message), Printable(report.refusal->code));
  return report.refusal->unsupported ? 3 : 1;
}

}  // namespace

Result<int> Run(const ExtractCommand& command) {
  ProgressView view(command.show.quiet);
  TRY_ASSIGN(const app::ExtractReport report, app::Extract(command, view));
  view.End();
  const bool is_single = report.files.size() == 1 && command.output.empty();
  if (is_single) PrintSource(report.files[0].text);
  if (!report.files.empty() && !command.show.quiet) {
    fmt::print(is_single ? stderr : stdout, "{}", FileList(report));
    for (const std::string& note : report.notes) {
      fmt::print(stderr, "note: {}\n", Printable(note));
    }
  }
  const int status = Report(report);
  TRY(WriteJson(command.show.json, app::ToJson(report)));
  return status;
}

}  // namespace cupel::cli
