// Readers of a candidate's text and of a compiler's output.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "build/diagnostics.h"
#include "build/flags.h"
#include "build/source_scan.h"
#include "build/sources.h"
#include "build/steps.h"
#include "harness.h"

namespace cupel::fuzz {

void RunOne(std::string_view input) {
  const std::string code = build::CodeOnly(input);
  CHECK(code.size() == input.size());
  CHECK(std::count(code.begin(), code.end(), '\n') == std::count(input.begin(), input.end(), '\n'));
  for (const std::string& note : build::NotesFromSource(input)) CHECK(!note.empty());
  for (const std::string& flag : build::LeanDefinitions(input)) CHECK(flag.starts_with("-D"));
  // A candidate can also make the compiler print any text.
  (void)build::ParseDiagnostics(std::string(input), "/tmp/work");
  (void)build::ParseResources(std::string(input));
  (void)build::ParseDryrun(input);
  // A worker reads bundles that another machine sent.
  if (const auto sources = build::Unbundle(input)) {
    const std::string text = build::Bundle(*sources);
    const auto again = build::Unbundle(text);
    CHECK(again && build::Bundle(*again) == text);
  }
}

}  // namespace cupel::fuzz
