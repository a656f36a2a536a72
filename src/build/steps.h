// The commands of which one run of nvcc consists, as `nvcc --dryrun` lists them. Run by ourselves,
// the host's and the device's half go side by side, which nvcc does not do.
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
  std::vector<Command> join;                       // compile what cudafe++ left, link
};

/// Empty when the listing is not of the form we know (another nvcc): then nvcc itself must run.
std::optional<Steps> ParseDryrun(std::string_view listing);

}  // namespace cupel::build
