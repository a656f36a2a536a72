// The tools of the MCP server that run commands of cupel.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>
#include <utility>

#include "app/doctor.h"
#include "cli/doctor_text.h"
#include "cli/mcp/command.h"
#include "cli/mcp/schemas.h"
#include "os/files.h"

namespace cupel::cli {
namespace {

using serve::McpAnswer;
using serve::McpCall;
using serve::McpTool;

// Members that are left out of answers because a model rarely needs them. The record has them.
constexpr std::array<std::string_view, 13> kOfVerdict = {"/settings/*/trials",
                                                         "/settings/*/cases",
                                                         "/settings/*/controls",
                                                         "/settings/*/counters/launches",
                                                         "/settings/*/distributions/tried",
                                                         "/settings/*/distributions/not_tried",
                                                         "/asked",
                                                         "/image_sha256",
                                                         "/tools",
                                                         "/sandbox",
                                                         "/environment",
                                                         "/timing",
                                                         "/signatures"};
constexpr std::array<std::string_view, 2> kOfBench = {"/settings/*/timings/*/samples_us",
                                                      "/kernels/*/verdict/settings"};
constexpr std::array<std::string_view, 2> kOfProfile = {"/settings/*/launches/*/mix",
                                                        "/settings/*/launches/*/lines"};

McpTool Tool(const char* name, const char* title, const char* description) {
  McpTool tool;
  tool.name = name;
  tool.title = title;
  tool.description = description;
  return tool;
}

/// `fill` completes the command line from the arguments.
template <typename Fill>
auto Running(const McpSetting& setting, const char* command, Fill fill,
             std::span<const std::string_view> leave_out) {
  return [&setting, command, fill, leave_out](const Json& arguments, McpCall& call) -> McpAnswer {
    auto line = McpCommandLine::Begin(setting, {command});
    if (!line) return serve::McpFailure(line.error());
    if (const Status filled = fill(*line, arguments); !filled) {
      return serve::McpFailure(filled.error());
    }
    return line->Run(call, leave_out);
  };
}

/// The common part of check, bench and profile.
Status FillJudging(McpCommandLine& line, const Json& arguments) {
  line.AddQuestion(arguments);
  line.AddModel();
  line.AddPython();
  line.AddCompile();
  return line.AddKernel(arguments);
}

McpTool CheckTool(const McpSetting& setting) {
  McpTool tool =
      Tool("check", "Check a kernel",
           "Checks whether a CUDA kernel is correct. Compiles it, runs it in the emulator or on a "
           "GPU on fresh inputs at every setting, and compares with PyTorch in float64. Returns "
           "a verdict: accepted, or rejected or unsupported with reasons that name the source "
           "line, thread or element.");
  Json properties = Json::object();
  AddKernel(properties);
  AddQuestion(properties, "all");
  properties["trials"] =
      IntegerSchema("Trials with fresh inputs for each setting. Default: 5.", 1, 1000);
  tool.input = Arguments(std::move(properties), {"task"});
  tool.output = VerdictSchema();
  tool.is_heavy = true;
  tool.run = Running(setting, "check", FillJudging, kOfVerdict);
  return tool;
}

McpTool ProfileTool(const McpSetting& setting) {
  McpTool tool = Tool("profile", "Profile a kernel",
                      "Shows what a kernel spends its time on: the dominating bottleneck, the "
                      "lines that cause it, and waste such as bank conflicts or unused sectors. "
                      "The emulator counts and estimates, or a GPU measures.");
  Json properties = Json::object();
  AddKernel(properties);
  AddQuestion(properties, "single");
  tool.input = Arguments(std::move(properties), {"task"});
  tool.output = VerdictSchema();
  tool.is_heavy = true;
  tool.run = Running(setting, "profile", FillJudging, kOfProfile);
  return tool;
}

McpTool BenchTool(const McpSetting& setting) {
  McpTool tool = Tool("bench", "Measure a kernel on a GPU",
                      "Times a kernel against eager PyTorch, torch.compile and other versions of "
                      "it. Needs a GPU; without one, use profile for estimates. Kernels that are "
                      "not correct are not timed.");
  Json properties = Json::object();
  AddKernel(properties);
  AddQuestion(properties, "all");
  properties["others"] = {{"type", "array"},
                          {"description", "Paths of other kernels to measure side by side."},
                          {"items", TextSchema("A .cu or .py file")},
                          {"maxItems", 7}};
  properties["baselines"] = TextSchema(
      "Baselines to time, separated by commas: eager, compile, max-autotune, named (those that the "
      "task names), or none. "
      "Default: eager,compile,named.",
      64);
  tool.input = Arguments(std::move(properties), {"task"});
  Json answer{{"kernels", {{"type", "array"}}}, {"settings", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  const auto fill = [](McpCommandLine& line, const Json& arguments) -> Status {
    line.AddOption("--baselines", arguments, "baselines");
    TRY(FillJudging(line, arguments));
    for (const Json& path : arguments.value("others", Json::array())) {
      TRY(line.AddKernel(Json{{"path", path}}));
    }
    return {};
  };
  tool.run = Running(setting, "bench", fill, kOfBench);
  return tool;
}

/// The options of commands that compile, and record programs with a task's arguments.
void AddBuilding(McpCommandLine& line, const Json& arguments) {
  line.AddOption("--task", arguments, "task");
  line.AddModel();
  line.AddPython();
  line.AddCompile();
}

McpTool BuildTool(const McpSetting& setting) {
  McpTool tool = Tool("build", "Compile a kernel",
                      "Compiles a kernel. Returns the compiler's messages by line, and registers, "
                      "shared memory and spills of each kernel. Faster than check.");
  Json properties = Json::object();
  AddKernel(properties);
  properties["task"] =
      TextSchema("For a Python answer: the task whose arguments it is called with.");
  tool.input = Arguments(std::move(properties), {});
  Json answer{{"built", {{"type", "boolean"}}},
              {"diagnostics", {{"type", "array"}}},
              {"kernels", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  const auto fill = [](McpCommandLine& line, const Json& arguments) -> Status {
    AddBuilding(line, arguments);
    return line.AddKernel(arguments);
  };
  tool.run = Running(setting, "build", fill, {});
  return tool;
}

McpTool VerifyTool(const McpSetting& setting) {
  McpTool tool = Tool("verify", "Verify a verdict's record",
                      "Verifies a record of a verdict. Checks its digest and hashes, and judges "
                      "the kernel again from the record's seeds.");
  Json properties{
      {"record_file",
       TextSchema("The record_file of a check, or any file of the form cupel.verdict/1.")},
      {"kernel", TextSchema("The .cu file. Default: the path in the record, or the same name next "
                            "to the record.")},
      {"task", TextSchema("The task. Default: the task in the record.")},
      {"device", TextSchema("gpu or gpu:N, for a record made on a GPU.", 16)}};
  tool.input = Arguments(std::move(properties), {"record_file"});
  Json answer{{"holds", {{"type", "boolean"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  const auto fill = [](McpCommandLine& line, const Json& arguments) -> Status {
    line.AddOption("--kernel", arguments, "kernel");
    line.AddOption("--task", arguments, "task");
    line.AddOption("--device", arguments, "device");
    line.AddPython();
    line.AddSandbox();
    line.AddFile(arguments["record_file"].get<std::string>());
    return {};
  };
  tool.run = Running(setting, "verify", fill, {});
  return tool;
}

McpTool ExtractTool(const McpSetting& setting) {
  McpTool tool = Tool(
      "extract", "Show the code that a Python program brings",
      "Shows the CUDA sources and the PTX of Triton kernels that a Python program (the form of "
      "KernelBench answers) brings. The program is called with the task's arguments on tensors "
      "without data, in a locked process.");
  Json properties{{"source", TextSchema("The Python text. Give this or path.", 4u << 20)},
                  {"path", TextSchema("The .py file.")},
                  {"task", TextSchema("Name of a task (see task_list), or a path to a task folder "
                                      "or .py file.")}};
  tool.input = Arguments(std::move(properties), {"task"});
  Json answer{{"files", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  const auto fill = [](McpCommandLine& line, const Json& arguments) -> Status {
    AddBuilding(line, arguments);
    Json program = arguments;
    program["language"] = "python";
    return line.AddKernel(program);
  };
  tool.run = Running(setting, "extract", fill, {});
  return tool;
}

/// Keeps the document of a call in a new record, and adds it to the answer.
Status Keep(const McpSetting& setting, Json document, McpAnswer& answer) {
  TRY_ASSIGN(const McpRecord record, setting.records->New());
  TRY(os::WriteFileAtomically(record.Document(), DumpJson(document, 2) + "\n"));
  AddDocument(record, std::move(document), {}, answer);
  return {};
}

McpTool DoctorTool(const McpSetting& setting) {
  McpTool tool =
      Tool("doctor", "Show what works on this machine",
           "Shows which parts of cupel work on this machine (compiler, sandbox, PyTorch, "
           "GPUs), and how to fix the others.");
  tool.input = Arguments(Json::object(), {});
  Json answer{{"checks", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.run = [&setting](const Json&, McpCall& call) -> McpAnswer {
    app::DoctorOptions options;
    options.common = setting.common;
    options.common.stop = call.stop();
    const std::vector<app::MachineCheck> checks = app::CheckMachine(options);
    McpAnswer done;
    done.text = DoctorText(checks);
    const auto kept = Keep(setting, app::ToJson(checks), done);
    return kept ? done : serve::McpFailure(kept.error());
  };
  return tool;
}

}  // namespace

std::vector<McpTool> CommandTools(const McpSetting& setting) {
  return {CheckTool(setting),   BuildTool(setting),  ProfileTool(setting), BenchTool(setting),
          ExtractTool(setting), VerifyTool(setting), DoctorTool(setting)};
}

}  // namespace cupel::cli
