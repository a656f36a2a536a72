// SPDX-License-Identifier: Apache-2.0
#include "app/check/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <variant>

#include "app/candidate.h"
#include "app/new_folder.h"
#include "app/program.h"
#include "base/hash.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOfName = 100;           // bytes
constexpr size_t kMostInDocument = 8u << 20;  // bytes of all texts

/// One harmless part of a path.
std::string SafeName(std::string_view text) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  std::string name(text.substr(0, kMostOfName));
  std::replace_if(name.begin(), name.end(), [&](char c) { return !is_safe(c); }, '_');
  if (name.empty() || name.front() == '.' || name.front() == '-') name.insert(0, "_");
  return name;
}

/// The path of harmless parts; the suffix of a name that is too long stays.
std::string SafePath(const fs::path& path) {
  fs::path safe;
  for (const fs::path& part : path.parent_path()) safe /= SafeName(part.string());
  return (safe /
          (SafeName(path.stem().string()) + SafeName("x" + path.extension().string()).substr(1)))
      .string();
}

/// True if both paths cannot be in one folder: they are equal, or one is a folder of the other.
bool Clash(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '/');
}

/// `stem` + `suffix`, or the same with a number: a path that clashes with none of `files`.
std::string NewPath(const std::string& stem, const std::string& suffix,
                    const std::vector<ExtractedFile>& files) {
  for (size_t n = 1;; ++n) {
    std::string path = n == 1 ? stem + suffix : fmt::format("{}-{}{}", stem, n, suffix);
    const auto clashes = [&](const ExtractedFile& file) { return Clash(path, file.path); };
    if (std::none_of(files.begin(), files.end(), clashes)) return path;
  }
}

}  // namespace

std::vector<ExtractedFile> FilesOf(const std::vector<trace::ProgramCode>& code) {
  std::vector<ExtractedFile> files;
  for (const trace::ProgramCode& one : code) {
    const std::string name = SafeName(one.name);
    const auto add = [&](std::string path, const std::string& text) {
      files.push_back({one.kind, one.name, std::move(path), text});
    };
    if (one.kind == trace::ProgramCode::Kind::kTriton || one.files.size() == 1) {
      const bool is_ptx = one.kind == trace::ProgramCode::Kind::kTriton;
      add(NewPath(name, is_ptx ? ".ptx" : ".cu", files), one.files.front().text);
      continue;
    }
    const std::string folder = NewPath(name, "", files);
    for (const build::SourceFile& file : one.files) {
      const fs::path path = fs::path(folder) / SafePath(file.name);
      add(NewPath((path.parent_path() / path.stem()).string(), path.extension().string(), files),
          file.text);
    }
  }
  return files;
}

Result<ExtractReport> Extract(const ExtractOptions& options, Events& events) {
  if (options.program.extension() != ".py") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a Python program", options.program.string()),
                "give a file whose name ends in .py");
  }
  if (!options.output.empty()) TRY(CheckNewFolder(options.output));
  TRY_ASSIGN(const assay::Candidate program,
             BuildCandidate(options.program, options.common, options.compile, events));
  if (!std::holds_alternative<assay::PythonProgram>(program.built)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} describes an extension, and brings no other code",
                            options.program.string()),
                "its sources are files already");
  }
  TRY_ASSIGN(RecordedProgram recorded,
             RecordProgram(program, options.task, options.common, options.compile, events));
  ExtractReport report;
  report.asked = options;
  report.setting = std::move(recorded.setting);
  report.files = FilesOf(recorded.code);
  report.notes = std::move(recorded.notes);
  report.refusal = std::move(recorded.refusal);
  if (options.output.empty() || report.files.empty()) return report;
  std::vector<NewFile> files;
  files.reserve(report.files.size());
  for (const ExtractedFile& file : report.files) files.push_back({file.path, file.text});
  TRY(WriteNewFolder(options.output, files));
  return report;
}

Json ToJson(const ExtractReport& report) {
  size_t bytes = 0;
  Json files = Json::array();
  for (const ExtractedFile& file : report.files) {
    Json one{{"kind", trace::NameOf(file.kind)},
             {"name", file.name},
             {"path", file.path},
             {"bytes", file.text.size()},
             {"sha256", Sha256Hex(file.text)}};
    bytes += file.text.size();
    if (bytes <= kMostInDocument) one["text"] = file.text;
    files.push_back(std::move(one));
  }
  Json json{{"schema", "cupel.extract/1"},
            {"program", report.asked.program.string()},
            {"task", report.asked.task},
            {"setting", report.setting},
            {"folder", report.asked.output.string()},
            {"files", std::move(files)},
            {"notes", report.notes}};
  if (report.refusal) {
    json["reasons"] = Json::array({Json{{"code", report.refusal->code},
                                        {"message", report.refusal->message},
                                        {"where", report.refusal->where}}});
  }
  return json;
}

}  // namespace cupel::app
