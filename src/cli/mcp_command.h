// A tool of the MCP server that is a command of cupel. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/mcp_records.h"
#include "cli/mcp_tools.h"

namespace cupel::cli {

/// A command line under construction, for one call.
class McpCommandLine {
 public:
  /// `words` name the command; its document goes to a new record.
  static Result<McpCommandLine> Begin(const McpSetting& setting, std::vector<std::string> words);

  /// "--name=value" where the member is there.
  void AddOption(const char* option, const Json& arguments, const char* member);
  /// The file of "path", or one with the text of "source".
  Status AddKernel(const Json& arguments);
  /// --task, --backward, --settings, --trials, --seed, --device.
  void AddQuestion(const Json& arguments);
  // How the server was started.
  void AddModel();    // of the GPU that the emulator describes
  void AddPython();   // that has PyTorch
  void AddCompile();  // how kernels are compiled, and AddSandbox()
  void AddSandbox();  // whether a weak one will do
  void AddReviewers();
  void Add(std::string word) { words_.push_back(std::move(word)); }
  /// After the options.
  void AddFile(const std::filesystem::path& path);

  /// Runs it. The answer has the text that a terminal would show, and the document without the
  /// members that `leave_out` names.
  serve::McpAnswer Run(serve::McpCall& call, std::span<const std::string_view> leave_out);
  const McpRecord& record() const { return record_; }

 private:
  McpCommandLine(const McpSetting& setting, std::vector<std::string> words, McpRecord record)
      : setting_(setting), words_(std::move(words)), record_(std::move(record)) {}

  const McpSetting& setting_;
  std::vector<std::string> words_, files_;
  McpRecord record_;
};

}  // namespace cupel::cli
