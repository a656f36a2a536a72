// Writes the code that a Python program brings as files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/events.h"
#include "base/json.h"
#include "base/result.h"
#include "record/call_recorder.h"
#include "trace/program_code.h"

namespace cupel::app {

struct ExtractedFile {
  trace::ProgramCode::Kind kind = trace::ProgramCode::Kind::kExtension;
  std::string name;  // of the extension or the kernel, as the program says; hostile
  std::string path;  // in the folder: relative, of harmless names
  std::string text;
};

struct ExtractReport {
  ExtractOptions asked;
  std::string setting;  // at which the program was called
  std::vector<ExtractedFile> files;
  std::vector<std::string> notes;
  /// Why the call could not be recorded: there may be more code.
  std::optional<record::Refusal> refusal;
};

/// The files of `code` in one folder: NAME.cu for an extension of one file, NAME/… for one of
/// several, NAME.ptx for a kernel of Triton. No two paths are equal, and none leaves the folder.
std::vector<ExtractedFile> FilesOf(const std::vector<trace::ProgramCode>& code);

/// Records the program with the task, and writes its files to `options.output` if that is not
/// empty. Errors: kInvalidArgument if `options.program` is not a Python file, or the folder is not
/// new; those of RecordProgram.
Result<ExtractReport> Extract(const ExtractOptions& options, Events& events);
/// The document "cupel.extract/1".
Json ToJson(const ExtractReport& report);

}  // namespace cupel::app
