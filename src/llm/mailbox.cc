// SPDX-License-Identifier: Apache-2.0
#include "llm/mailbox.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "os/files.h"

namespace cupel::llm {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kRequest = ".request.md";
constexpr const char* kAnswer = ".answer.md";
constexpr const char* kOpen = "open.txt";
constexpr std::string_view kRole = "role: ";
constexpr size_t kMaxHead = 1024;  // bytes of a question's first lines

/// "proposer, generation 2, proposal 1, from candidate 7 (tiles)", in one line of a comment.
std::string PurposeOf(const Call& call) {
  std::string text(call.role.empty() ? "question" : call.role);
  if (!call.about.empty()) text.append(", ").append(call.about);
  for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at)) {
    text.replace(at, 2, "- -");  // must not end the comment
  }
  return Shown(text, kMaxHead / 2);
}

std::string RequestText(const Request& request, const Call& call, const std::string& name) {
  return fmt::format(
      "<!-- A question to {}. Put the answer into {}{} in the folder of this file:\n"
      "     write it under another name, then rename it.\n"
      "     {}{} -->\n\n{}",
      request.model, name, kAnswer, kRole, PurposeOf(call), PlainText(request));
}

/// The purpose in a question's first lines; empty if there is none.
std::string PurposeIn(const fs::path& question) {
  std::ifstream file(question);
  std::string head(kMaxHead, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  const size_t begin = head.find(kRole);
  const size_t end = head.find(" -->", begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return Shown(head.substr(begin + kRole.size(), end - begin - kRole.size()));
}

/// Lists the questions without an answer. Best effort: several programs may share a mailbox.
void ListOpen(const fs::path& folder) {
  std::vector<std::string> lines;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (!file.ends_with(kRequest)) continue;
    const std::string name = file.substr(0, file.size() - std::string_view(kRequest).size());
    if (fs::exists(folder / (name + kAnswer), error)) continue;
    lines.push_back(fmt::format("{}  {}\n", file, PurposeIn(entry->path())));
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  (void)os::WriteFileAtomically(folder / kOpen, text);
}

/// Size and time of a file, to detect whether it is still being written.
struct FileState {
  off_t size = -1;
  timespec changed{};
  bool operator==(const FileState& other) const {
    return size == other.size && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

FileState StateOf(const fs::path& file) {
  struct stat info{};
  if (stat(file.c_str(), &info) != 0) return {};
  return {info.st_size, info.st_mtim};
}

double SecondsSince(const timespec& time) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - time.tv_sec) +
         static_cast<double>(now.tv_nsec - time.tv_nsec) * 1e-9;
}

class Mailbox : public Provider {
 public:
  explicit Mailbox(MailboxOptions options) : options_(std::move(options)) {}
  bool Metered() const override { return false; }

  Reply Ask(const Request& request, const Call& call) override {
    const std::string name = MailboxName(request);
    const fs::path question = options_.folder / (name + kRequest);
    const fs::path file = options_.folder / (name + kAnswer);
    std::error_code error;
    if (!fs::exists(file, error) && !fs::exists(question, error)) {
      const Status written = os::WriteFileAtomically(question, RequestText(request, call, name));
      if (!written) return Failed(written.error());
    }
    ShowOpen();
    const Status answered = Await(file, question, call);
    ShowOpen();
    if (!answered) return Failed(answered.error());
    const Result<std::string> text = os::ReadFile(file, options_.max_bytes);
    if (!text) return Failed(text.error());
    Reply reply;
    reply.answer.text = *text;
    reply.answer.model = request.model;
    reply.answer.stop = Stop::kEnd;
    if (call.on_text) call.on_text(*text);
    return reply;
  }

 private:
  void ShowOpen() {
    const std::lock_guard lock(listing_);
    ListOpen(options_.folder);
  }

  /// Waits until the answer exists and no longer changes. An empty file does not count.
  Status Await(const fs::path& file, const fs::path& question, const Call& call) const {
    const auto start = Clock::now();
    const double settle = std::chrono::duration<double>(options_.settle).count();
    FileState last;
    auto since = start;
    for (;;) {
      if (call.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "cancelled");
      const auto now = Clock::now();
      const FileState state = StateOf(file);
      if (!(state == last)) since = now;
      last = state;
      const bool is_stable =
          now - since >= options_.settle || SecondsSince(state.changed) >= settle;
      if (state.size > 0 && is_stable) return {};
      if (options_.deadline && now - start > *options_.deadline) {
        return Fail(ErrorCode::kTimeout,
                    fmt::format("no answer to {} in {} s", question.string(),
                                static_cast<double>(options_.deadline->count()) / 1000),
                    "write the answer and run again: cupel will find it");
      }
      std::this_thread::sleep_for(std::min(options_.poll, milliseconds(500)));
    }
  }

  const MailboxOptions options_;
  std::mutex listing_;
};

}  // namespace

std::string MailboxName(const Request& request) { return HashOf(request).substr(0, 24); }

Result<std::unique_ptr<Provider>> MailboxProvider(MailboxOptions options) {
  std::error_code error;
  if (!fs::is_directory(options.folder, error)) {
    if (options.folder.has_parent_path())
      fs::create_directories(options.folder.parent_path(), error);
    if (mkdir(options.folder.c_str(), 0700) != 0) {
      return Fail(ErrorCode::kIo,
                  fmt::format("cannot create the mailbox {}: {}", options.folder.string(),
                              std::strerror(errno)),
                  "choose a folder that you can write to");
    }
  }
  return std::unique_ptr<Provider>(new Mailbox(std::move(options)));
}

}  // namespace cupel::llm
