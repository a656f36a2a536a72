// The commands of one run of nvcc, as listed by `nvcc --dryrun`. cupel runs the host's and the
// device's half in parallel, which nvcc does not do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::build {

using Command = std::vector<std::string>;

struct Steps {
  std::map<std::string, std::string> environment;  // PATH, LD_LIBRARY_PATH
  std::vector<Command> host;                       // preprocess, split (cudafe++)
  std::vector<Command> device;                     // preprocess, cicc, ptxas, fatbinary
  std::vector<Command> join;                       // compile cudafe++'s output
  std::vector<Command> link;
};

/// Returns nothing if the listing has an unknown form (another nvcc): then nvcc itself must run.
std::optional<Steps> ParseDryrun(std::string_view listing);

}  // namespace cupel::build
