// SPDX-License-Identifier: Apache-2.0
#include "review/neutral.h"

#include <algorithm>
#include <utility>

#include "review/neutraliser.h"

namespace cupel::review {
namespace {

constexpr size_t kMaxRawTag = 16;
constexpr size_t kMaxCharacters = 4;  // of a character constant

size_t SkipSplices(std::string_view text, size_t at) {
  for (size_t length = SpliceAt(text, at); length > 0; length = SpliceAt(text, at)) at += length;
  return at;
}

}  // namespace

std::string Plain(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    const bool space = c == '\r' || c == '\f' || c == '\v';
    const bool shown = c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f);
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // same character
    if (continues && !out.empty() && out.back() == '?') continue;
    out += space ? ' ' : shown ? c : '?';
  }
  return out;
}

size_t SpliceAt(std::string_view text, size_t at) {
  if (at >= text.size() || text[at] != '\\') return 0;
  size_t end = at + 1;
  while (end < text.size() && IsBlank(text[end])) ++end;
  return end < text.size() && text[end] == '\n' ? end + 1 - at : 0;
}

bool Neutraliser::Matches(std::string_view pair) const {
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

/// Writes the line ends in [begin, end); `spliced`: as splices within one line.
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

/// Tracks inline assembly: its PTX begins at the parenthesis after `asm volatile goto`.
void Neutraliser::FollowAssembly(char c) {
  if (assembly_ < 0) return;
  if (c == '(') {
    ++assembly_;
  } else if (c == ')') {
    if (--assembly_ <= 0) assembly_ = -1;
  } else if (assembly_ == 0 && (c == ';' || c == '{' || c == '}')) {
    assembly_ = -1;
  } else if (c == ':') {
    ptx_ = PtxText();  // the operands begin after the template
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

/// A string or character that is not raw. Removes splices.
void Neutraliser::Literal() {
  const size_t begin = at_;
  const char quote = text_[at_++];
  std::string content;
  while (!End() && text_[at_] != quote && text_[at_] != '\n') {
    if (const size_t splice = SpliceAt(text_, at_); splice > 0) {
      at_ += splice;
      continue;
    }
    if (text_[at_] == '\\') {
      if (at_ + 1 == text_.size()) {  // at the end, it would escape our closing quote
        ++at_;
        break;
      }
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
  Emit("", std::string_view{text_}.substr(open + 1, content_end - open - 1), '"', true);
  const auto lines = [](std::string_view s) { return std::count(s.begin(), s.end(), '\n'); };
  const auto missing = lines(std::string_view{text_}.substr(at_, end - at_)) -
                       lines(std::string_view{out_}.substr(written));
  for (auto i = missing; i > 0; --i) out_ += in_directive_ ? "\\\n" : "\n";
  at_ = end;
}

/// Processes one token of a line.
void Neutraliser::Token() {
  const char c = text_[at_];
  if (const size_t splice = SpliceAt(text_, at_); splice > 0) {
    out_ += "\\\n";
    at_ += splice;
  } else if (Matches("//")) {
    LineComment();
  } else if (Matches("/*")) {
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
    } else if (line_begins_ && (text_[at_] == '#' || Matches("%:"))) {
      Directive();
    } else {
      Token();
    }
  }
  return std::move(out_);
}

std::string Neutralised(std::string_view source) { return Neutraliser(Plain(source)).Run(); }

}  // namespace cupel::review
