// `cupel extract`: prints or writes the .cu file that the other commands build.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "app/candidate.h"
#include "cli/commands.h"
#include "os/files.h"
#include "term/text.h"

namespace cupel::cli {

Result<int> Run(const ExtractCommand& command) {
  TRY_ASSIGN(const app::ExtractReport extracted, app::Extract(command));
  if (command.output.empty()) {
    fmt::print("{}", extracted.source);
  } else {
    TRY(os::WriteFileAtomically(command.output, extracted.source));
  }
  if (command.show.quiet) return 0;
  for (const std::string& note : extracted.notes) {
    fmt::print(stderr, "note: {}\n", Printable(note));
  }
  std::string flags;
  for (const std::string& flag : extracted.flags) flags += fmt::format(" --flag={}", flag);
  fmt::print(stderr, "to compile it with the answer's flags, use{}\n", Printable(flags));
  return 0;
}

}  // namespace cupel::cli
