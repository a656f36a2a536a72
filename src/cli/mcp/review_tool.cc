// The tool `review`: language models review a kernel. The server's command line names the models,
// not the call.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <mutex>
#include <utility>

#include "cli/mcp/command.h"
#include "cli/mcp/schemas.h"
#include "llm/spec.h"

namespace cupel::cli {
namespace {

using serve::McpAnswer;
using serve::McpCall;
using serve::McpTool;

constexpr std::chrono::milliseconds kStopLatency{100};

McpAnswer Review(const McpSetting& setting, const Json& arguments, McpCall& call) {
  if (setting.models.specs.empty()) {
    return serve::McpFailure(Error{
        ErrorCode::kInvalidArgument, "this server was started without a language model",
        "start it as cupel mcp --model PROVIDER:NAME (docs/models.md): " + llm::ProviderNames() +
            "; or use check, which needs no model"});
  }
  auto line = McpCommandLine::Begin(setting, {"review"});
  if (!line) return serve::McpFailure(line.error());
  line->AddQuestion(arguments);
  if (arguments.value("show_findings", false)) line->Add("--show-findings");
  line->AddModel();
  line->AddPython();
  line->AddCompile();
  line->AddReviewers();
  if (const Status added = line->AddKernel(arguments); !added) {
    return serve::McpFailure(added.error());
  }
  std::unique_lock turn(setting.asking, std::defer_lock);
  while (!turn.try_lock_for(kStopLatency)) {
    if (call.stop().stop_requested()) {
      return serve::McpFailure(Error{ErrorCode::kCancelled, "cancelled", ""});
    }
  }
  return line->Run(call, {});
}

}  // namespace

McpTool ReviewTool(const McpSetting& setting) {
  McpTool tool;
  tool.name = "review";
  tool.title = "Review a kernel";
  tool.description =
      "Language models review a kernel. Three verifiers (compilation, memory accesses, numerics) "
      "vote, and quote the line they object to. This is a quick opinion that can be wrong: only "
      "check gives a verdict.";
  Json properties = Json::object();
  AddKernel(properties);
  properties["task"] =
      TextSchema("Name of a task (see task_list), or a path to a task folder or .py file.");
  properties["direction"] = ChoiceSchema("Default: forward.", {"forward", "backward"});
  properties["show_findings"] = {
      {"type", "boolean"},
      {"description",
       "Judge the kernel first, as check does, and show the findings to the reviewers."}};
  tool.input = Arguments(std::move(properties), {"task"});
  Json answer{{"passed", {{"type", "boolean"}}},
              {"score", {{"type", "number"}}},
              {"opinions", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  tool.asks_others = true;
  tool.run = [&setting](const Json& arguments, McpCall& call) {
    return Review(setting, arguments, call);
  };
  return tool;
}

}  // namespace cupel::cli
