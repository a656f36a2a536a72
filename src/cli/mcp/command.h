// A tool of the MCP server that runs a command of cupel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/mcp/records.h"
#include "cli/mcp/tools.h"

namespace cupel::cli {

/// Adds the document of a call to its answer, without the members that `leave_out` names and cut to
/// what a model will read; and the number of its record, which has the whole.
void AddDocument(const McpRecord& record, Json document,
                 std::span<const std::string_view> leave_out, serve::McpAnswer& answer);

/// A command line under construction, for one call.
class McpCommandLine {
 public:
  /// `words` name the command. Its document goes to a new record.
  static Result<McpCommandLine> Begin(const McpSetting& setting, std::vector<std::string> words);

  /// Adds "--name=value" if `arguments` has the member.
  void AddOption(const char* option, const Json& arguments, const char* member);
  /// Adds the file of "path", or a new file with the text of "source".
  Status AddKernel(const Json& arguments);
  /// Adds --task, --backward, --settings, --trials, --seed, --device.
  void AddQuestion(const Json& arguments);
  // These add options that the server was started with.
  void AddModel();    // the GPU that the emulator models
  void AddPython();   // the Python that has PyTorch
  void AddCompile();  // how kernels are compiled; includes AddSandbox()
  void AddSandbox();  // whether a weak sandbox is allowed
  void AddReviewers();
  void Add(std::string word) { words_.push_back(std::move(word)); }
  /// Adds a file argument. Files come after the options.
  void AddFile(const std::filesystem::path& path);

  /// Runs the command. The answer has the text that a terminal would show, and the document without
  /// the members that `leave_out` names.
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
