// SPDX-License-Identifier: Apache-2.0
#include "review/neutral.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>
#include <vector>

#include "review/ptx_text.h"

namespace cupel::review {
namespace {

constexpr size_t kMaxRawTag = 16;
constexpr size_t kMaxCharacters = 4;  // of a character constant: more is none

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

/// Line ends are \n, and what cannot be seen or reorders what is seen is a question mark.
std::string Plain(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    const bool space = c == '\r' || c == '\f' || c == '\v';
    const bool shown = c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f);
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // one sign, one mark
    if (continues && !out.empty() && out.back() == '?') continue;
    out += space ? ' ' : shown ? c : '?';
  }
  return out;
}

/// The length of a spliced line end (backslash, blanks, newline) at `at`; 0: there is none.
size_t SpliceAt(std::string_view text, size_t at) {
  if (at >= text.size() || text[at] != '\\') return 0;
  size_t end = at + 1;
  while (end < text.size() && IsBlank(text[end])) ++end;
  return end < text.size() && text[end] == '\n' ? end + 1 - at : 0;
}

size_t SkipSplices(std::string_view text, size_t at) {
  for (size_t length = SpliceAt(text, at); length > 0; length = SpliceAt(text, at)) at += length;
  return at;
}

/// One pass over the text. What is not looked for is copied as it is.
class Neutraliser {
 public:
  explicit Neutraliser(std::string text) : text_(std::move(text)) {}
  std::string Run();

 private:
  bool End() const { return at_ >= text_.size(); }
  bool Looking(std::string_view pair) const;
  void Copy(size_t count = 1);
  void NewLine();
  void Token();
  void KeepLineEnds(size_t begin, size_t end, bool spliced);
  void LineComment();
  void BlockComment();
  void Word();
  void Literal();
  void RawString();
  void Directive();
  void DropRestOfLine();
  void IncludedPath();
  void SkipLine();
  void SkipGroup();
  std::string LogicalLine(size_t from) const;
  void Emit(std::string_view prefix, std::string_view content, char quote, bool raw);
  void FollowAssembly(char c);

  const std::string text_;
  std::string out_;
  size_t at_ = 0;
  bool line_begins_ = true;  // nothing but blanks and comments so far
  bool in_directive_ = false;
  // Of inline assembly: -1 outside, 0 between the word and its parenthesis, then the depth.
  int assembly_ = -1;
  PtxText ptx_;
};

bool Neutraliser::Looking(std::string_view pair) const {
  if (text_[at_] != pair[0]) return false;
  const size_t second = SkipSplices(text_, at_ + 1);
  return second < text_.size() && text_[second] == pair[1];
}

void Neutraliser::Copy(size_t count) {
  out_.append(text_, at_, count);
  at_ += count;
}

void Neutraliser::NewLine() {
  Copy();
  line_begins_ = true;
  in_directive_ = false;
}

/// The lines that [begin, end) spans; `spliced`: as one line of a directive.
void Neutraliser::KeepLineEnds(size_t begin, size_t end, bool spliced) {
  for (size_t i = begin; i < std::min(end, text_.size()); ++i) {
    if (text_[i] == '\n') out_ += spliced ? "\\\n" : "\n";
  }
}

void Neutraliser::LineComment() {
  const size_t begin = at_;
  while (!End() && text_[at_] != '\n') {
    const size_t splice = SpliceAt(text_, at_);
    at_ += splice > 0 ? splice : 1;
  }
  out_ += ' ';
  KeepLineEnds(begin, at_, true);
}

void Neutraliser::BlockComment() {
  const size_t begin = at_;
  at_ = SkipSplices(text_, at_ + 1) + 1;
  while (!End()) {
    if (text_[at_] == '*') {
      const size_t second = SkipSplices(text_, at_ + 1);
      if (second < text_.size() && text_[second] == '/') {
        at_ = second + 1;
        break;
      }
    }
    ++at_;
  }
  out_ += ' ';
  KeepLineEnds(begin, at_, in_directive_);
}

void Neutraliser::Word() {
  const size_t begin = at_;
  std::string word;
  while (!End()) {
    if (const size_t splice = SpliceAt(text_, at_); splice > 0) {
      at_ += splice;
      continue;
    }
    // 1'000 is one number.
    const bool separator = text_[at_] == '\'' && !word.empty() &&
                           std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
                           at_ + 1 < text_.size() && IsWord(text_[at_ + 1]);
    if (!IsWord(text_[at_]) && !separator) break;
    word += text_[at_++];
  }
  const bool quoted = !End() && text_[at_] == '"';
  static constexpr std::string_view kRaw[] = {"R", "LR", "uR", "UR", "u8R"};
  if (quoted && std::find(std::begin(kRaw), std::end(kRaw), word) != std::end(kRaw)) {
    out_ += word.substr(0, word.size() - 1);
    KeepLineEnds(begin, at_, true);
    return RawString();
  }
  out_.append(text_, begin, at_ - begin);
  if (word == "asm" || word == "__asm" || word == "__asm__") {
    assembly_ = 0;
    ptx_ = PtxText();
  }
}

/// Only the parenthesis that follows `asm volatile goto` opens its PTX.
void Neutraliser::FollowAssembly(char c) {
  if (assembly_ < 0) return;
  if (c == '(') {
    ++assembly_;
  } else if (c == ')') {
    if (--assembly_ <= 0) assembly_ = -1;
  } else if (assembly_ == 0 && (c == ';' || c == '{' || c == '}')) {
    assembly_ = -1;
  } else if (c == ':') {
    ptx_ = PtxText();  // the template has ended, operands begin
  }
}

void Neutraliser::Emit(std::string_view prefix, std::string_view content, char quote, bool raw) {
  static constexpr std::string_view kBinding[] = {"forward", "backward", "C", "C++", "unroll", ""};
  out_ += prefix;
  if (quote == '\'') {
    out_.append("'").append(content.size() <= kMaxCharacters ? content : "?").append("'");
  } else if (assembly_ > 0) {
    const std::string ptx = ptx_.Neutralised(content, raw);
    const bool lines = ptx.find('\n') != std::string::npos;
    out_.append(lines ? "R\"(" : "\"").append(ptx).append(lines ? ")\"" : "\"");
  } else if (std::find(std::begin(kBinding), std::end(kBinding), content) != std::end(kBinding)) {
    out_.append("\"").append(content).append("\"");
  } else {
    out_ += kWithheld;
  }
}

/// A string or character that is not raw, with the splices taken out.
void Neutraliser::Literal() {
  const size_t begin = at_;
  const char quote = text_[at_++];
  std::string content;
  while (!End() && text_[at_] != quote && text_[at_] != '\n') {
    if (const size_t splice = SpliceAt(text_, at_); splice > 0) {
      at_ += splice;
      continue;
    }
    if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') {
      content += text_[at_++];
    }
    content += text_[at_++];
  }
  if (!End() && text_[at_] == quote) ++at_;
  Emit("", content, quote, false);
  KeepLineEnds(begin, at_, true);
}

void Neutraliser::RawString() {
  const size_t open = text_.find('(', at_);
  const std::string tag = open == std::string::npos ? "" : text_.substr(at_ + 1, open - at_ - 1);
  if (open == std::string::npos || tag.size() > kMaxRawTag ||
      tag.find_first_of(" )\\\t\n\"") != std::string::npos) {
    return Literal();
  }
  const std::string close = ")" + tag + "\"";
  const size_t last = text_.find(close, open + 1);
  const size_t end = last == std::string::npos ? text_.size() : last + close.size();
  const size_t content_end = last == std::string::npos ? text_.size() : last;
  const size_t written = out_.size();
  Emit("", std::string_view(text_).substr(open + 1, content_end - open - 1), '"', true);
  const auto lines = [](std::string_view s) { return std::count(s.begin(), s.end(), '\n'); };
  const auto missing = lines(std::string_view(text_).substr(at_, end - at_)) -
                       lines(std::string_view(out_).substr(written));
  for (auto i = missing; i > 0; --i) out_ += in_directive_ ? "\\\n" : "\n";
  at_ = end;
}

/// The directive at `from` without comments: enough of it to tell which it is.
std::string Neutraliser::LogicalLine(size_t from) const {
  std::string line;
  for (size_t i = from; i < text_.size() && text_[i] != '\n' && line.size() < 200;) {
    if (const size_t splice = SpliceAt(text_, i); splice > 0) {
      i += splice;
      continue;
    }
    const std::string_view rest = std::string_view(text_).substr(i, 2);
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

/// Is `words` the beginning of a group that is never compiled?
bool NeverCompiled(const std::vector<std::string>& words) {
  return words.size() == 2 && words[0] == "if" && (words[1] == "0" || words[1] == "false");
}

/// To the line's end, with what goes on over it: comments hold no directives here either.
void Neutraliser::SkipLine() {
  const size_t begin = at_, written = out_.size();
  const int assembly = std::exchange(assembly_, -1);
  while (!End() && text_[at_] != '\n') Token();
  assembly_ = assembly;
  out_.resize(written);
  KeepLineEnds(begin, at_, false);
}

/// From after the `#if 0` to before the directive that ends its group: line ends alone.
void Neutraliser::SkipGroup() {
  SkipLine();
  int depth = 0;
  while (!End()) {
    NewLine();
    size_t first = at_;
    while (first < text_.size() && IsBlank(text_[first])) ++first;
    const size_t sign = first < text_.size() && text_[first] == '#'        ? 1
                        : std::string_view(text_).substr(first, 2) == "%:" ? 2
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
  // <path> or "path" of plain signs; anything else is no file that is there.
  while (!End() && IsBlank(text_[at_])) Copy();
  const char open = End() ? ' ' : text_[at_];
  if (open != '<' && open != '"') return;
  const size_t end = text_.find_first_of(open == '<' ? ">\n" : "\"\n", at_ + 1);
  const std::string_view path =
      std::string_view(text_).substr(at_ + 1, end == std::string::npos ? end : end - at_ - 1);
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

/// One piece of a line.
void Neutraliser::Token() {
  const char c = text_[at_];
  if (const size_t splice = SpliceAt(text_, at_); splice > 0) {
    out_ += "\\\n";
    at_ += splice;
  } else if (Looking("//")) {
    LineComment();
  } else if (Looking("/*")) {
    BlockComment();
  } else if (IsBlank(c)) {
    Copy();
  } else {
    line_begins_ = false;
    if (IsWord(c)) {
      Word();
    } else if (c == '"' || c == '\'') {
      Literal();
    } else {
      FollowAssembly(c);
      Copy();
    }
  }
}

std::string Neutraliser::Run() {
  out_.reserve(text_.size());
  while (!End()) {
    if (text_[at_] == '\n') {
      NewLine();
    } else if (line_begins_ && (text_[at_] == '#' || Looking("%:"))) {
      Directive();
    } else {
      Token();
    }
  }
  return std::move(out_);
}

}  // namespace

std::string Neutralised(std::string_view source) { return Neutraliser(Plain(source)).Run(); }

}  // namespace cupel::review
