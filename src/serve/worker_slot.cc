// SPDX-License-Identifier: Apache-2.0
#include "serve/worker_slot.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "records/json.h"
#include "task/task.h"

namespace cupel::serve {
namespace {

/// `text` after writing it as JSON and reading it back, which replaces invalid UTF-8.
std::string AsWritten(const std::string& text) {
  Json json = Json::object();
  json["text"] = text;
  const auto read = ParseJson(DumpJson(json), "text");
  if (!read) return text;
  return JsonString(*read, "text", "text").value_or(text);
}

}  // namespace

Expected ExpectedOf(const Assignment& work) {
  const std::filesystem::path name(work.task.name);
  return {AsWritten(work.item.kernel.string()),
          Sha256Hex(work.source),
          AsWritten(work.task.is_folder ? name.string() : name.stem().string()),
          work.task_hash,
          std::string(task::Name(work.item.backward ? task::Direction::kBackward
                                                    : task::Direction::kForward)),
          work.setting};
}

std::optional<std::string> VerdictMismatch(const Expected& expected, const Json& json) {
  const auto verdict = records::ReadVerdict(json, "verdict", {});
  if (!verdict) return "it did not send a verdict: " + verdict.error().message;
  // A kernel that was not built has no hash in its verdict.
  const bool is_same =
      (verdict->source_hash.empty() || verdict->source_hash == expected.source_hash) &&
      verdict->task == expected.task && verdict->task_hash == expected.task_hash &&
      task::Name(verdict->direction) == expected.direction &&
      verdict->kernel_path == expected.kernel;
  if (!is_same) return "it sent the verdict of another kernel or task";
  return std::nullopt;
}

std::optional<std::string> ResultMismatch(const Expected& expected, const Done& done) {
  if (expected.setting.empty()) return VerdictMismatch(expected, done.verdict);
  if (done.is_stale) return std::nullopt;
  const auto bench = records::ReadBench(done.bench, "bench", {});
  if (!bench) return "it did not send times: " + bench.error().message;
  if (bench->settings.size() != 1) return "it did not send the times of exactly one setting";
  if (bench->settings[0].id != expected.setting) return "it sent the times of another setting";
  return std::nullopt;
}

bool IsMachineError(const Error& error) {
  return error.code == ErrorCode::kEnvironment || error.code == ErrorCode::kIo ||
         error.code == ErrorCode::kTimeout || error.code == ErrorCode::kBusy ||
         error.code == ErrorCode::kInternal;
}

void WorkerSlot::Clear() {
  link.reset();
  files.clear();
  stage = Stage::kDown;
  errors_in_a_row = 0;
}

Chunk ChunkOf(const WorkerSlot& slot, const Fetch& fetch) {
  Chunk chunk{fetch.sha256, fetch.offset, {}, {}};
  for (const auto& [stream, sent] : slot.files) {
    if (sent.sha256 != fetch.sha256) continue;
    const std::string_view text = sent.file.text();
    const size_t begin = std::min(static_cast<size_t>(fetch.offset), text.size());
    chunk.data = text.substr(begin, kChunkBytes);
    return chunk;
  }
  chunk.error = Error{
      ErrorCode::kNotFound,
      fmt::format("the coordinator no longer has the case {}", fetch.sha256.substr(0, 12)), ""};
  return chunk;
}

}  // namespace cupel::serve
