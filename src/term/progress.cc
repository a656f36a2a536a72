// SPDX-License-Identifier: Apache-2.0
#include "term/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "term/text.h"

namespace cupel::term {
namespace {

constexpr int kDefaultColumns = 80;

bool IsTerminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

int Columns(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultColumns;
}

/// Ignores errors: the command must not fail because of its progress line.
void WriteFd(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

ProgressLine::ProgressLine(ProgressOptions options) : options_(std::move(options)) {
  const int fd = options_.fd;
  terminal_ = options_.terminal ? *options_.terminal : IsTerminal(fd);
  if (!options_.now) options_.now = [] { return Clock::now(); };
  if (!options_.write) options_.write = [fd](std::string_view text) { WriteFd(fd, text); };
  if (!options_.columns) options_.columns = [fd] { return Columns(fd); };
}

ProgressLine::ProgressLine(bool quiet)
    : ProgressLine([quiet] {
        ProgressOptions options;
        options.quiet = quiet;
        return options;
      }()) {}

ProgressLine::~ProgressLine() { Finish(); }

void ProgressLine::Update(const Progress& state) {
  if (options_.quiet) return;
  const Clock::time_point now = options_.now();
  if (!begun_) {
    begun_ = true;
    started_ = now;
    first_done_ = state.done;
  }
  if (last_ && now - *last_ < (terminal_ ? options_.redraw : options_.plain_every)) return;
  last_ = now;
  const std::string line = Compose(state, now);
  if (terminal_) {
    // Leave one column free: some terminals wrap after a character in the last column.
    Draw(Fit(line, options_.columns() - 1));
  } else if (line != plain_) {
    plain_ = line;
    options_.write(line + "\n");
  }
}

void ProgressLine::Note(std::string_view line) {
  if (options_.quiet) return;
  Erase();
  options_.write(Printable(line) + "\n");
  last_.reset();
}

void ProgressLine::Finish() {
  Erase();
  begun_ = false;
  last_.reset();
  plain_.clear();
}

void ProgressLine::Draw(const std::string& line) {
  options_.write("\r" + line + "\x1b[K");
  drawn_ = true;
}

void ProgressLine::Erase() {
  if (drawn_) options_.write("\r\x1b[K");
  drawn_ = false;
}

std::string ProgressLine::Compose(const Progress& state, Clock::time_point now) const {
  std::string line;
  const auto add = [&](const std::string& part) {
    if (part.empty()) return;
    if (!line.empty()) line += " · ";
    line += part;
  };
  const std::string unit = state.unit.empty() ? "" : " " + Printable(state.unit);
  if (state.total) {
    add(fmt::format("{}/{}{}", state.done, *state.total, unit));
  } else if (state.done > 0) {
    add(fmt::format("{}{}", state.done, unit));
  }
  add(Printable(state.result));
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const int64_t made = state.done - first_done_;
  if (state.left) {
    add(Duration(*state.left) + " left");
  } else if (state.total && made > 0 && *state.total > state.done) {
    // The time left comes before the activity, since a narrow window cuts the end.
    add(Duration(seconds / static_cast<double>(made) *
                 static_cast<double>(*state.total - state.done)) +
        " left");
  } else if (seconds >= 1) {
    add(Duration(seconds));
  }
  add(Printable(state.stage));
  return line;
}

}  // namespace cupel::term
