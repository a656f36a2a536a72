// The part of Neutraliser for preprocessor directives.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "review/neutral.h"
#include "review/neutraliser.h"

namespace cupel::review {
namespace {

std::vector<std::string> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  for (size_t i = 0; i < line.size();) {
    if (IsBlank(line[i])) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (IsWord(line[i])) {
      while (end < line.size() && IsWord(line[end])) ++end;
    }
    words.emplace_back(line.substr(i, end - i));
    i = end;
  }
  return words;
}

/// True if `words` is a directive that begins a group that is never compiled.
bool NeverCompiled(const std::vector<std::string>& words) {
  return words.size() == 2 && words[0] == "if" && (words[1] == "0" || words[1] == "false");
}

}  // namespace

/// The directive at `from` without comments, or enough of it to identify the directive.
std::string Neutraliser::LogicalLine(size_t from) const {
  std::string line;
  for (size_t i = from; i < text_.size() && text_[i] != '\n' && line.size() < 200;) {
    if (const size_t splice = SpliceAt(text_, i); splice > 0) {
      i += splice;
      continue;
    }
    const std::string_view rest = std::string_view{text_}.substr(i, 2);
    if (rest == "//") break;
    if (rest == "/*") {
      const size_t end = text_.find("*/", i + 2);
      i = end == std::string::npos ? text_.size() : end + 2;
      line += ' ';
      continue;
    }
    line += text_[i++];
  }
  return line;
}

void Neutraliser::DropRestOfLine() {
  const size_t begin = at_;
  while (!End() && text_[at_] != '\n') {
    const size_t splice = SpliceAt(text_, at_);
    at_ += splice > 0 ? splice : 1;
  }
  KeepLineEnds(begin, at_, true);
}

/// Skips to the end of the line, including comments that continue beyond it: directives in comments
/// do not count.
void Neutraliser::SkipLine() {
  const size_t begin = at_, written = out_.size();
  const int assembly = std::exchange(assembly_, -1);
  while (!End() && text_[at_] != '\n') Token();
  assembly_ = assembly;
  out_.resize(written);
  KeepLineEnds(begin, at_, false);
}

/// Skips the group after `#if 0` up to the directive that ends it. Keeps only line ends.
void Neutraliser::SkipGroup() {
  SkipLine();
  int depth = 0;
  while (!End()) {
    NewLine();
    size_t first = at_;
    while (first < text_.size() && IsBlank(text_[first])) ++first;
    const size_t sign = first < text_.size() && text_[first] == '#'        ? 1
                        : std::string_view{text_}.substr(first, 2) == "%:" ? 2
                                                                           : 0;
    if (sign > 0) {
      const auto words = WordsOf(LogicalLine(first + sign));
      const std::string name = words.empty() ? "" : words[0];
      if (depth == 0 && (name == "endif" || name.starts_with("el"))) return;
      if (name == "endif") --depth;
      if (name.starts_with("if")) ++depth;
    }
    SkipLine();
  }
}

void Neutraliser::IncludedPath() {
  // <path> or "path" of plain characters. Replaces anything else, which cannot be a real file.
  while (!End() && IsBlank(text_[at_])) Copy();
  const char open = End() ? ' ' : text_[at_];
  if (open != '<' && open != '"') return;
  const size_t end = text_.find_first_of(open == '<' ? ">\n" : "\"\n", at_ + 1);
  const std::string_view path =
      std::string_view{text_}.substr(at_ + 1, end == std::string::npos ? end : end - at_ - 1);
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return IsWord(c) || std::string_view("./+-").find(c) != std::string_view::npos;
  });
  if (plain && end != std::string::npos && text_[end] != '\n') {
    Copy(end + 1 - at_);
  } else {
    out_ += kWithheld;
  }
  DropRestOfLine();
}

void Neutraliser::Directive() {
  in_directive_ = true;
  line_begins_ = false;
  Copy(text_[at_] == '%' ? 2 : 1);
  const auto words = WordsOf(LogicalLine(at_));
  if (words.empty()) return;
  const std::string& name = words[0];
  const auto copy_name = [&] {
    while (!End() && text_[at_] != '\n' && !IsWord(text_[at_])) Token();
    if (!End() && text_[at_] != '\n') Token();
  };
  if (name == "include" || name == "include_next" || name == "import" || name == "embed") {
    copy_name();
    IncludedPath();
  } else if (name == "error" || name == "warning" || name == "ident" || name == "sccs") {
    copy_name();
    DropRestOfLine();
  } else if (name == "pragma") {
    static constexpr std::string_view kActed[] = {"unroll", "nounroll", "once", "pack", "omp"};
    copy_name();
    const std::string about = words.size() > 1 ? words[1] : "";
    if (std::find(std::begin(kActed), std::end(kActed), about) == std::end(kActed)) {
      DropRestOfLine();
    }
  } else if (NeverCompiled(words)) {
    copy_name();
    copy_name();  // 0
    SkipGroup();
  }
}

}  // namespace cupel::review
