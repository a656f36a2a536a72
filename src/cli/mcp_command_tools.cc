// The tools that are commands of cupel. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>
#include <utility>

#include "cli/mcp_command.h"
#include "cli/mcp_schemas.h"
#include "os/fd.h"

namespace cupel::cli {
namespace {

using serve::McpAnswer;
using serve::McpCall;
using serve::McpTool;

constexpr size_t kMostExtracted = 256u << 10;

// What a model does not need at first sight; all of it is in the record.
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

/// What check, bench and profile have in common.
Status FillJudging(McpCommandLine& line, const Json& arguments) {
  line.AddQuestion(arguments);
  line.AddModel();
  line.AddPython();
  line.AddCompile();
  return line.AddKernel(arguments);
}

McpTool Check(const McpSetting& setting) {
  McpTool tool =
      Tool("check", "Check a kernel",
           "Is a CUDA kernel right? Compiles it, runs it in the emulator or on a GPU on "
           "fresh inputs at every setting, and compares with PyTorch in float64. Answers "
           "with a verdict: accepted, or rejected or unsupported with reasons that name "
           "the source line, thread or element.");
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

McpTool Profile(const McpSetting& setting) {
  McpTool tool = Tool("profile", "Profile a kernel",
                      "What does a kernel spend its time on? The bound that dominates, the lines "
                      "that cause it, and waste such as bank conflicts or sectors fetched in vain: "
                      "counted and estimated by the emulator, or measured on a GPU.");
  Json properties = Json::object();
  AddKernel(properties);
  AddQuestion(properties, "single");
  tool.input = Arguments(std::move(properties), {"task"});
  tool.output = VerdictSchema();
  tool.is_heavy = true;
  tool.run = Running(setting, "profile", FillJudging, kOfProfile);
  return tool;
}

McpTool Bench(const McpSetting& setting) {
  McpTool tool = Tool("bench", "Measure a kernel on a GPU",
                      "How fast is a kernel, against eager PyTorch and torch.compile and its other "
                      "versions? Needs a GPU: without one, profile estimates. Kernels that are not "
                      "right are not timed.");
  Json properties = Json::object();
  AddKernel(properties);
  AddQuestion(properties, "all");
  properties["others"] = {{"type", "array"},
                          {"description", "Paths of other kernels to measure side by side."},
                          {"items", TextSchema("A .cu or .py file")},
                          {"maxItems", 7}};
  properties["baselines"] = TextSchema(
      "Which of PyTorch's answers: eager, compile, max-autotune, separated by commas, or none. "
      "Default: eager,compile.",
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

McpTool Build(const McpSetting& setting) {
  McpTool tool = Tool("build", "Compile a kernel",
                      "Does a kernel compile? The compiler's messages by line; registers, shared "
                      "memory and spills of each kernel. Quicker than check.");
  Json properties = Json::object();
  AddKernel(properties);
  properties["task"] = TextSchema("Of a Python answer: the task that orders its arguments.");
  tool.input = Arguments(std::move(properties), {});
  Json answer{{"built", {{"type", "boolean"}}},
              {"diagnostics", {{"type", "array"}}},
              {"kernels", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  tool.is_heavy = true;
  const auto fill = [](McpCommandLine& line, const Json& arguments) -> Status {
    line.AddOption("--task", arguments, "task");
    line.AddPython();
    line.AddCompile();
    return line.AddKernel(arguments);
  };
  tool.run = Running(setting, "build", fill, {});
  return tool;
}

McpTool Verify(const McpSetting& setting) {
  McpTool tool = Tool("verify", "Verify a verdict's record",
                      "Is a record of a verdict true? Checks its digest and hashes, and judges the "
                      "kernel again from the record's seeds.");
  Json properties{
      {"record_file", TextSchema("What check wrote: its record_file, or any cupel.verdict/1.")},
      {"kernel", TextSchema("The .cu file. Default: where the record says it is, or beside it.")},
      {"task", TextSchema("The task. Default: as the record names it.")},
      {"device", TextSchema("gpu or gpu:N for a record of a GPU.", 16)}};
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

/// The file is the answer, whole: a model is to go on from it.
McpTool Extract(const McpSetting& setting) {
  McpTool tool = Tool("extract", "Extract the kernel of a Python answer",
                      "The .cu file in a Python answer with load_inline (as KernelBench's models "
                      "write), found without running it.");
  Json properties{{"source", TextSchema("The Python text. Give this or path.", 4u << 20)},
                  {"path", TextSchema("The .py file.")},
                  {"task", TextSchema("Task that orders the arguments. Default: the answer.")}};
  tool.input = Arguments(std::move(properties), {});
  tool.run = [&setting](const Json& arguments, McpCall& call) -> McpAnswer {
    auto line = McpCommandLine::Begin(setting, {"extract"});
    if (!line) return serve::McpFailure(line.error());
    const auto file = line->record().folder->path() / "extracted.cu";
    line->AddOption("--task", arguments, "task");
    line->AddPython();
    line->Add("--output=" + file.string());
    Json answer = arguments;
    answer["language"] = "python";
    if (const Status added = line->AddKernel(answer); !added) {
      return serve::McpFailure(added.error());
    }
    McpAnswer done = line->Run(call, {});
    done.structured = Json();
    if (done.is_error) return done;
    const auto text = os::ReadFile(file, kMostExtracted);
    if (text) {
      done.text = *text;
    } else {
      done.is_error = true;  // nothing to go on from; the text says what could not be followed
    }
    return done;
  };
  return tool;
}

McpTool Doctor(const McpSetting& setting) {
  McpTool tool = Tool("doctor", "What this machine offers",
                      "Which parts of cupel work here (compiler, sandbox, PyTorch, GPUs), and what "
                      "to do about those that do not.");
  tool.input = Arguments(Json::object(), {});
  Json answer{{"checks", {{"type", "array"}}}};
  AddRecord(answer);
  tool.output = AnswerOf(std::move(answer), {"record", "record_file", "left_out"});
  const auto fill = [](McpCommandLine& line, const Json&) -> Status {
    line.AddPython();
    return {};
  };
  tool.run = Running(setting, "doctor", fill, {});
  return tool;
}

}  // namespace

std::vector<McpTool> CommandTools(const McpSetting& setting) {
  return {Check(setting),   Build(setting),  Profile(setting), Bench(setting),
          Extract(setting), Verify(setting), Doctor(setting)};
}

}  // namespace cupel::cli
