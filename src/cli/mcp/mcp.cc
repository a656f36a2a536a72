// `cupel mcp`: serves tools to coding agents over standard input and output (docs/mcp.md).
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/lanes.h"
#include "cli/commands.h"
#include "cli/mcp/guide.h"
#include "cli/mcp/tools.h"
#include "cli/protocol_output.h"
#include "os/folders.h"
#include "serve/mcp_stream.h"

namespace cupel::cli {
namespace {

/// A client that reads nothing for this long is considered dead.
constexpr std::chrono::seconds kWriteDeadline{60};

serve::McpOffer Offer(const McpSetting& setting, int jobs) {
  serve::McpOffer offer;
  offer.instructions = kMcpInstructions;
  for (auto tools : {CommandTools(setting), TaskTools(setting), RunTools(setting)}) {
    std::move(tools.begin(), tools.end(), std::back_inserter(offer.tools));
  }
  offer.tools.push_back(ReviewTool(setting));
  offer.tools.push_back(RecordTool(setting));
  offer.list_resources = [&setting] { return ListMcpResources(setting); };
  offer.read_resource = [&setting](const std::string& uri) {
    return ReadMcpResource(setting, uri);
  };
  offer.jobs = jobs > 0 ? jobs : static_cast<int>(Cores());
  return offer;
}

}  // namespace

Result<int> Run(const McpCommand& command) {
  const os::Fd output = TakeOutput();
  McpSetting setting;
  setting.common = command.common;
  setting.compile = command.compile;
  setting.limit = std::chrono::seconds(command.seconds);
  TRY_ASSIGN(const auto data, os::DataDir());
  setting.tasks = data / "tasks";
  TRY_ASSIGN(setting.records, McpRecords::Create());
  setting.models = command.models;
  if (setting.models.transcript.empty()) {
    setting.models.transcript = setting.records->folder() / "transcript.jsonl";
  }
  setting.calibration = command.calibration;
  std::stop_source stop;
  const std::stop_callback pass_on(command.common.stop, [&stop] { stop.request_stop(); });
  const auto send = [&output, &stop](const std::string& line) {
    // If the client does not read, stop the server.
    const auto sent = os::WriteAll(output.get(), line + "\n", kWriteDeadline, stop.get_token());
    if (!sent) stop.request_stop();
  };
  serve::McpServer server(Offer(setting, command.jobs), send);
  TRY(serve::ServeMcp(server, STDIN_FILENO, stop.get_token()));
  return 0;
}

}  // namespace cupel::cli
