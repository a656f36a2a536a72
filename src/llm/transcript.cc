// SPDX-License-Identifier: Apache-2.0
#include "llm/transcript.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "os/files.h"

namespace cupel::llm {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxTranscriptBytes = size_t{1} << 30;

tl::unexpected<Error> FailIo(std::string_view what, const fs::path& file) {
  return Fail(ErrorCode::kIo,
              fmt::format("cannot {} {}: {}", what, file.string(), std::strerror(errno)),
              errno == ENOSPC ? "free space on its disk" : "check the folder and its permissions");
}

/// Removes the text after the last line end.
Status DropTail(int fd, const fs::path& file) {
  off_t end = lseek(fd, 0, SEEK_END);
  const off_t whole = end;
  char last = '\n';
  while (end > 0) {
    if (pread(fd, &last, 1, end - 1) != 1) return FailIo("read", file);
    if (last == '\n') break;
    --end;
  }
  if (end != whole && ftruncate(fd, end) != 0) return FailIo("repair", file);
  return {};
}

/// Unlike os::WriteAll, continues when the user stops the program: paid answers must be saved.
bool WriteWhole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

using Attempts = std::map<std::pair<std::string, int64_t>, std::vector<Spending>>;

Status ReadLine(const Json& json, const std::string& what, Recorded& recorded, Attempts& open) {
  TRY_ASSIGN(const std::string kind, JsonString(json, "kind", what));
  TRY_ASSIGN(const std::string hash, JsonString(json, "hash", what));
  TRY_ASSIGN(const int64_t attempt, JsonInt(json, "attempt", what));
  std::vector<Spending>& pending = open[{hash, attempt}];
  if (kind == "began") {
    Spending worst;
    TRY_ASSIGN(worst.money, JsonInt(json, "worst_nano_usd", what));
    TRY_ASSIGN(worst.tokens, JsonInt(json, "worst_tokens", what));
    pending.push_back(worst);
    return {};
  }
  if (kind != "ended") {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: this is not a line of a transcript", what));
  }
  if (!pending.empty()) pending.pop_back();
  Exchange exchange;
  exchange.hash = hash;
  exchange.attempt = static_cast<int>(std::clamp<int64_t>(attempt, 0, 1 << 20));
  if (json.contains("role")) {  // transcripts of cupel 0.1.0 lack it
    TRY_ASSIGN(exchange.role, JsonString(json, "role", what));
  }
  TRY_ASSIGN(const Json* request, JsonObject(json, "request", what));
  TRY_ASSIGN(exchange.request, RequestFromJson(*request, what + ".request"));
  TRY_ASSIGN(const Json* answer, JsonObject(json, "answer", what));
  TRY_ASSIGN(exchange.answer, AnswerFromJson(*answer, what + ".answer"));
  TRY_ASSIGN(exchange.spent.money, JsonInt(json, "charged_nano_usd", what));
  TRY_ASSIGN(exchange.spent.tokens, JsonInt(json, "charged_tokens", what));
  TRY_ASSIGN(exchange.seconds, JsonNumber(json, "seconds", what));
  if (json.contains("error") && json["error"].is_string()) {
    exchange.failure = Failure{{ErrorCode::kIo, json["error"].get<std::string>(), ""}, false, {}};
  }
  recorded.spent.money += exchange.spent.money;
  recorded.spent.tokens += exchange.spent.tokens;
  recorded.exchanges.push_back(std::move(exchange));
  return {};
}

}  // namespace

Result<std::unique_ptr<Transcript>> Transcript::Open(const fs::path& file) {
  os::Fd fd(open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  if (!fd) return FailIo("open", file);
  TRY(DropTail(fd.get(), file));
  return std::unique_ptr<Transcript>(new Transcript(file, std::move(fd)));
}

Status Transcript::Began(const Exchange& exchange) {
  return Append({{"kind", "began"},
                 {"hash", exchange.hash},
                 {"attempt", exchange.attempt},
                 {"worst_nano_usd", exchange.worst.money},
                 {"worst_tokens", exchange.worst.tokens}});
}

Status Transcript::Ended(const Exchange& exchange) {
  Json error;
  if (exchange.failure) error = exchange.failure->error.message;
  return Append({{"kind", "ended"},
                 {"hash", exchange.hash},
                 {"role", exchange.role},
                 {"attempt", exchange.attempt},
                 {"request", ToJson(exchange.request)},
                 {"answer", ToJson(exchange.answer)},
                 {"error", std::move(error)},
                 {"charged_nano_usd", exchange.spent.money},
                 {"charged_tokens", exchange.spent.tokens},
                 {"seconds", exchange.seconds}});
}

Status Transcript::Append(const Json& line) {
  const std::string text = DumpJson(line) + "\n";
  const std::lock_guard lock(mutex_);
  const off_t before = lseek(fd_.get(), 0, SEEK_END);
  if (!WriteWhole(fd_.get(), text) || fdatasync(fd_.get()) != 0) {
    auto fail = FailIo("write", file_);
    // An incomplete line would make the next one unreadable.
    if (before >= 0 && ftruncate(fd_.get(), before) != 0)
      fail.value().message += "; the last line is incomplete";
    return fail;
  }
  return {};
}

Result<Recorded> ReadTranscript(const fs::path& file) {
  TRY_ASSIGN(const std::string text, os::ReadFile(file, kMaxTranscriptBytes));
  Recorded recorded;
  Attempts open;
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // incomplete after a power loss
    const std::string what = fmt::format("{}:{}", file.string(), number);
    TRY_ASSIGN(const Json json, ParseJson(rest.substr(0, end), what));
    TRY(ReadLine(json, what, recorded, open));
    rest.remove_prefix(end + 1);
  }
  for (const auto& [key, pending] : open) {
    for (const Spending& worst : pending) {
      recorded.spent.money += worst.money;
      recorded.spent.tokens += worst.tokens;
    }
  }
  return recorded;
}

}  // namespace cupel::llm
