// `cupel worker`.
// SPDX-License-Identifier: Apache-2.0
#include "app/suite/worker.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/protocol_output.h"

namespace cupel::cli {
namespace {

/// Prints remarks to standard error, which the coordinator stores.
class Remarks final : public Events {
 public:
  void Note(std::string_view line) override { fmt::print(stderr, "{}\n", line); }
};

}  // namespace

Result<int> Run(const WorkerCommand& command) {
  const os::Fd output = TakeOutput();
  Remarks remarks;
  TRY(app::Work(command, output.get(), remarks));
  return 0;
}

}  // namespace cupel::cli
