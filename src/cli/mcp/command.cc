// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/candidate.h"
#include "cli/json_file.h"
#include "cli/mcp/brief.h"
#include "cli/mcp/child.h"
#include "os/files.h"

namespace cupel::cli {
namespace {

namespace fs = std::filesystem;

// The most that an answer shows a model at once.
constexpr size_t kMostCommandText = 24u << 10;
constexpr size_t kMostDocument = 24u << 10;

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

/// The document that the command wrote; null if it wrote none.
Result<Json> ReadDocument(const McpRecord& record) {
  std::error_code error;
  if (!fs::exists(record.Document(), error)) return Json();
  TRY_ASSIGN(const std::string text, os::ReadFile(record.Document(), kMaxJsonBytes));
  TRY_ASSIGN(Json document, ParseJson(text, record.Document().string()));
  // Errors are returned as text, because a tool's schema only describes its answers.
  if (document.contains("schema") && document["schema"] == kErrorSchema) return Json();
  return document;
}

}  // namespace

void AddDocument(const McpRecord& record, Json document,
                 std::span<const std::string_view> leave_out, serve::McpAnswer& answer) {
  answer.structured = Brief(std::move(document), leave_out, kMostDocument);
  answer.structured["record"] = record.number;
  answer.structured["record_file"] = record.Document().string();
}

Result<McpCommandLine> McpCommandLine::Begin(const McpSetting& setting,
                                             std::vector<std::string> words) {
  TRY_ASSIGN(McpRecord record, setting.records->New());
  words.push_back("--json=" + record.Document().string());
  return McpCommandLine(setting, std::move(words), std::move(record));
}

void McpCommandLine::AddOption(const char* option, const Json& arguments, const char* member) {
  if (arguments.contains(member)) Add(fmt::format("{}={}", option, TextOf(arguments[member])));
}

Status McpCommandLine::AddKernel(const Json& arguments) {
  const bool has_source = arguments.contains("source"), has_path = arguments.contains("path");
  if (has_source == has_path) {
    return Fail(ErrorCode::kInvalidArgument, "give exactly one of \"source\" and \"path\"",
                "give the kernel's text as \"source\", or a file as \"path\"");
  }
  if (has_source) {
    const bool is_python = arguments.value("language", "cuda") == "python";
    const fs::path file = record_.folder->path() / (is_python ? "kernel.py" : "kernel.cu");
    TRY(os::WriteFileAtomically(file, arguments["source"].get_ref<const std::string&>()));
    AddFile(file);
    return {};
  }
  const fs::path path = arguments["path"].get<std::string>();
  if (!app::IsCandidateName(path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a kernel: its name must end in .cu or .py", path.string()));
  }
  AddFile(path);
  return {};
}

void McpCommandLine::AddFile(const fs::path& path) {
  std::error_code error;
  files_.push_back(fs::absolute(path, error).string());
}

void McpCommandLine::AddQuestion(const Json& arguments) {
  AddOption("--task", arguments, "task");
  if (arguments.value("direction", "forward") == "backward") Add("--backward");
  AddOption("--settings", arguments, "settings");
  AddOption("--trials", arguments, "trials");
  AddOption("--seed", arguments, "seed");
  if (arguments.contains("device")) {
    AddOption("--device", arguments, "device");
  } else if (setting_.common.device != "auto") {
    Add("--device=" + setting_.common.device);
  }
}

void McpCommandLine::AddModel() { Add("--gpu-model=" + setting_.common.model); }

void McpCommandLine::AddPython() {
  if (!setting_.common.python.empty()) Add("--python=" + setting_.common.python);
}

void McpCommandLine::AddCompile() {
  const app::Compile& compile = setting_.compile;
  Add("--arch=" + compile.arch);
  Add(fmt::format("--compile-limit={}", compile.seconds));
  for (const std::string& flag : compile.flags) Add("--flag=" + flag);
  for (const fs::path& root : compile.include_roots) Add("--include=" + root.string());
  AddSandbox();
}

void McpCommandLine::AddSandbox() {
  if (setting_.compile.allow_weak_sandbox) Add("--allow-weak-sandbox");
}

void McpCommandLine::AddReviewers() {
  const app::ModelOptions& models = setting_.models;
  for (const std::string& spec : models.specs) Add("--model=" + spec);
  if (models.budget_usd) Add(fmt::format("--budget={}", *models.budget_usd));
  if (models.budget_tokens) Add(fmt::format("--budget-tokens={}", *models.budget_tokens));
  Add("--transcript=" + models.transcript.string());
  if (!setting_.calibration.empty()) Add("--calibration=" + setting_.calibration.string());
}

serve::McpAnswer McpCommandLine::Run(serve::McpCall& call,
                                     std::span<const std::string_view> leave_out) {
  std::vector<std::string> words = words_;
  words.push_back("--");
  words.insert(words.end(), files_.begin(), files_.end());
  const auto end = RunSelf(words, record_.folder->path(), setting_.limit, call);
  if (!end) return serve::McpFailure(end.error());
  auto document = ReadDocument(record_);
  if (!document) return serve::McpFailure(document.error());

  serve::McpAnswer answer;
  answer.text = FirstLines(end->out, kMostCommandText);
  // Exit status 0, 1 and 3 are answers about the kernel. Any other means that cupel itself failed.
  answer.is_error = end->status != 0 && end->status != 1 && end->status != 3;
  if (answer.is_error || answer.text.empty()) answer.text += LastError(end->err);
  if (answer.text.empty()) answer.text = "done\n";
  if (document->is_null() && (end->status == 1 || end->status == 3)) {
    *document = Json{{"verdict", end->status == 1 ? "rejected" : "unsupported"}};
    if (const Status kept = os::WriteFileAtomically(record_.Document(), DumpJson(*document, 2));
        !kept) {
      return serve::McpFailure(kept.error());
    }
  }
  if (!document->is_null()) AddDocument(record_, *std::move(document), leave_out, answer);
  return answer;
}

}  // namespace cupel::cli
