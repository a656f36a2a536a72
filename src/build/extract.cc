// SPDX-License-Identifier: Apache-2.0
#include "build/extract.h"

#include <fmt/format.h>

#include <chrono>

#include "base/json.h"
#include "os/files.h"
#include "os/process.h"

namespace cupel::build {
namespace {

constexpr size_t kMaxAnswer = 4u << 20;
constexpr size_t kMaxReply = 32u << 20;
constexpr size_t kMaxNote = 500;
constexpr std::chrono::seconds kParseDeadline{30};
constexpr char kReplyName[] = "extract.py";

/// The text in one line, at most kMaxNote bytes.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text.substr(0, kMaxNote);
}

Result<std::vector<std::string>> Texts(const Json& reply, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, key, kReplyName));
  std::vector<std::string> texts;
  for (const Json& text : *list) {
    if (text.is_string()) texts.push_back(OneLine(text.get<std::string>()));
  }
  return texts;
}

}  // namespace

Result<ExtractOutcome> ExtractAnswer(const std::filesystem::path& answer,
                                     const std::optional<Json>& signature,
                                     const ExtractOptions& options) {
  TRY_ASSIGN(const std::string source, os::ReadFile(answer, kMaxAnswer));
  Json request = signature.value_or(Json::object());
  request["source"] = source;
  request["file"] = OneLine(answer.filename().string());
  os::SpawnOptions spawn;
  spawn.argv = {options.python, "-I", "-S", options.script.string()};
  spawn.env = {{"PATH", "/usr/bin:/bin"}, {"LC_ALL", "C.UTF-8"}};
  spawn.stop = options.stop;
  TRY_ASSIGN(const os::RunResult run,
             os::Run(std::move(spawn), kParseDeadline, kMaxReply, DumpJson(request)));
  if (!run.status.exited || run.status.code != 0 || run.out_truncated) {
    // Hostile text can exhaust the reader, which has limits of its own.
    return ExtractOutcome(ExtractRefusal{fmt::format(
        "its Python code cannot be read: extract.py failed ({})", run.status.Describe())});
  }
  TRY_ASSIGN(const Json reply, ParseJson(run.out, kReplyName));
  if (reply.contains("refusal")) {
    TRY_ASSIGN(const std::string why, JsonString(reply, "refusal", kReplyName));
    return ExtractOutcome(ExtractRefusal{OneLine(why)});
  }
  Extraction extraction;
  TRY_ASSIGN(extraction.source, JsonString(reply, "source", kReplyName));
  TRY_ASSIGN(extraction.notes, Texts(reply, "notes"));
  TRY_ASSIGN(extraction.flags, Texts(reply, "flags"));
  return ExtractOutcome(std::move(extraction));
}

}  // namespace cupel::build
