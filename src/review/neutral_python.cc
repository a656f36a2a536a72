// SPDX-License-Identifier: Apache-2.0
#include "review/neutral_python.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "review/neutral.h"
#include "review/neutraliser.h"

namespace cupel::review {
namespace {

constexpr size_t kLongestWord = 64;

/// True if a string is C++ or CUDA, and not a text for people.
bool IsCode(std::string_view content) {
  static constexpr std::array<std::string_view, 9> kSigns = {
      "__global__", "__device__", "__host__", "__shared__",     "#include",
      "#define",    "torch::",    "at::",     "PYBIND11_MODULE"};
  return std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
    return content.find(sign) != std::string_view::npos;
  });
}

/// A name, a dtype, a flag: one word, which cannot say much.
bool IsShown(std::string_view content) {
  return content.size() <= kLongestWord && std::all_of(content.begin(), content.end(), [](char c) {
           return IsWord(c) || c == '.' || c == '-' || c == '=' || c == ':';
         });
}

/// The code of a string, and for each line end in it whether the string has a \n there.
struct Code {
  std::string text;
  std::vector<bool> is_escape;
};

Code Decoded(std::string_view content, bool raw) {
  Code code;
  for (size_t i = 0; i < content.size(); ++i) {
    char c = content[i];
    bool is_escape = false;
    if (c == '\\' && !raw && i + 1 < content.size() && content[i + 1] != '\n') {
      const char next = content[++i];
      is_escape = next == 'n';
      static constexpr std::string_view kPlain = "\\'\"";
      // Others could hide the beginning of a comment.
      c = is_escape                                     ? '\n'
          : next == 't'                                 ? '\t'
          : kPlain.find(next) != std::string_view::npos ? next
                                                        : '?';
    }
    code.text += c;
    if (c == '\n') code.is_escape.push_back(is_escape);
  }
  return code;
}

/// Processes the text in one pass. Copies everything that is no comment and no string.
class PythonNeutraliser {
 public:
  /// `text` has \n as line ends and is otherwise printable.
  explicit PythonNeutraliser(std::string text) : text_(std::move(text)) {}

  std::string Run() {
    out_.reserve(text_.size());
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        String(false);
      } else if (IsWord(c)) {
        Word();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  void Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    std::string word = text_.substr(begin, at_ - begin);
    out_ += word;
    const bool quoted = at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
    if (!quoted || word.size() > 2) return;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool is_prefix = word.find_first_not_of("rbuf") == std::string::npos;
    String(is_prefix && word.find('r') != std::string::npos);
  }

  void String(bool raw) {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool is_long = text_.compare(at_, 3, three) == 0;
    const size_t begin = at_ + (is_long ? 3 : 1);
    size_t end = begin;
    bool is_closed = false;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '\\') {
        ++end;
      } else if (is_long ? text_.compare(end, 3, three) == 0 : text_[end] == quote) {
        is_closed = true;
        break;
      } else if (!is_long && text_[end] == '\n') {
        break;
      }
    }
    end = std::min(end, text_.size());
    Emit(std::string_view(text_).substr(begin, end - begin), raw,
         is_long ? three : three.substr(2));
    at_ = std::min(end + (is_closed ? begin - at_ : 0), text_.size());
  }

  void Emit(std::string_view content, bool raw, const std::string& quotes) {
    if (IsShown(content)) {
      out_ += quotes;
      out_ += content;
      out_ += quotes;
      return;
    }
    if (!IsCode(content)) {
      out_ += kWithheld;
      out_.append(static_cast<size_t>(std::count(content.begin(), content.end(), '\n')), '\n');
      return;
    }
    const Code code = Decoded(content, raw);
    out_ += quotes;
    size_t line = 0;
    for (const char c : Neutralised(code.text)) {
      const bool is_escape = c == '\n' && line < code.is_escape.size() && code.is_escape[line];
      if (c == '\n') ++line;
      if (is_escape) {
        out_ += "\\n";
      } else {
        out_ += c;
      }
    }
    out_ += quotes;
  }

  const std::string text_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string NeutralisedPython(std::string_view source) {
  return PythonNeutraliser(Plain(source)).Run();
}

}  // namespace cupel::review
