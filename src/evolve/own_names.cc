// SPDX-License-Identifier: Apache-2.0
#include "evolve/own_names.h"

#include <string_view>
#include <unordered_set>

namespace cupel::evolve {
namespace {

using Words = std::unordered_set<std::string_view>;

const Words& Types() {
  static const Words words = {
      "auto",    "bool",   "char",          "double",         "float",   "int",   "long",
      "short",   "void",   "signed",        "unsigned",       "half",    "half2", "__half",
      "__half2", "Tensor", "float2",        "float4",         "double2", "int2",  "int4",
      "uint2",   "uint4",  "__nv_bfloat16", "__nv_bfloat162", "dim3"};
  return words;
}

/// Keywords that may precede a name without declaring it.
const Words& Statements() {
  static const Words words = {"return", "else",   "case",    "goto",      "throw", "new",
                              "delete", "sizeof", "do",      "co_return", "asm",   "volatile",
                              "ifdef",  "ifndef", "if",      "elif",      "undef", "endif",
                              "pragma", "unroll", "include", "operator"};
  return words;
}

/// Words that are never declared names.
const Words& Keywords() {
  static const Words words = {"const",
                              "constexpr",
                              "static",
                              "inline",
                              "extern",
                              "mutable",
                              "struct",
                              "class",
                              "union",
                              "enum",
                              "typename",
                              "template",
                              "using",
                              "namespace",
                              "typedef",
                              "for",
                              "while",
                              "switch",
                              "break",
                              "continue",
                              "default",
                              "public",
                              "private",
                              "protected",
                              "this",
                              "true",
                              "false",
                              "nullptr",
                              "static_cast",
                              "reinterpret_cast",
                              "const_cast",
                              "static_assert",
                              "decltype",
                              "alignas",
                              "noexcept",
                              "explicit",
                              "virtual",
                              "override",
                              "friend",
                              "define",
                              "defined",
                              "__global__",
                              "__device__",
                              "__host__",
                              "__shared__",
                              "__constant__",
                              "__restrict__",
                              "__forceinline__",
                              "__launch_bounds__",
                              "__align__"};
  return words;
}

bool IsKeyword(std::string_view word) {
  return Keywords().count(word) > 0 || Statements().count(word) > 0 || Types().count(word) > 0;
}

class Finder {
 public:
  explicit Finder(const std::vector<Token>& tokens) : tokens_(tokens) {}

  Words Find() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view text = At(i);
      if (text == "(" || text == "[" || text == "{") ++depth_;
      if (text == ")" || text == "]" || text == "}") --depth_;
      if (text == ";" || depth_ < list_depth_) list_depth_ = kNoList;
      if (!IsName(i) || !(Declared(i) || ContinuesList(i))) continue;
      own_.insert(text);
      if (DeclaresType(i)) types_.insert(text);
      list_depth_ = depth_;
    }
    return std::move(own_);
  }

 private:
  static constexpr int kNoList = -(1 << 30);

  /// "" if `i` is out of range.
  std::string_view At(size_t i) const {
    return i < tokens_.size() ? tokens_[i].text : std::string_view();
  }
  bool IsWord(size_t i) const {
    return i < tokens_.size() && tokens_[i].kind == Token::Kind::kWord;
  }
  bool IsName(size_t i) const {
    return IsWord(i) && !IsKeyword(At(i)) && !(At(i + 1) == ":" && At(i + 2) == ":");
  }
  bool IsType(size_t i) const {
    return IsWord(i) &&
           (Types().count(At(i)) > 0 || types_.count(At(i)) > 0 || At(i).ends_with("_t"));
  }

  bool DeclaresType(size_t i) const {
    const std::string_view before = i > 0 ? At(i - 1) : std::string_view();
    return before == "typename" || before == "class" || before == "struct" || before == "using";
  }

  bool Declared(size_t i) const {
    if (i == 0) return false;
    const std::string_view before = At(i - 1);
    const std::string_view after = At(i + 1);
    if (IsWord(i - 1)) {
      // A word and a name: "float x", "__restrict__ x", "void f", "define X", "struct S".
      const bool whole_namespace = before == "namespace" && i > 1 && At(i - 2) == "using";
      return Statements().count(before) == 0 && !whole_namespace;
    }
    const bool ends_declarator = after == "=" || after == ";" || after == "," || after == ")" ||
                                 after == "[" || after == "{";
    if (before == "*" || before == "&") {  // float* x, const T& x
      size_t type = i - 1;
      while (type > 0 && (At(type) == "*" || At(type) == "&")) --type;
      return ends_declarator && IsType(type);
    }
    if (before == ">") return ends_declarator && after != ")";  // fragment<…> x
    return before == ")" && FollowsAttribute(i);
  }

  /// __launch_bounds__(256, 2) kernel, __align__(16) Struct
  bool FollowsAttribute(size_t i) const {
    constexpr size_t kFarthest = 16;
    for (size_t back = 2; back < kFarthest && back < i; ++back) {
      if (At(i - back) != "(") continue;
      const std::string_view word = At(i - back - 1);
      return word == "__launch_bounds__" || word == "__align__" || word == "alignas";
    }
    return false;
  }

  /// int a = f(x, y), b = 2;
  bool ContinuesList(size_t i) const {
    const std::string_view after = At(i + 1);
    return i > 0 && At(i - 1) == "," && depth_ == list_depth_ &&
           (after == "=" || after == "," || after == ";" || after == "[");
  }

  const std::vector<Token>& tokens_;
  Words own_, types_;
  int depth_ = 0;
  int list_depth_ = kNoList;  // depth of the declaration that a comma continues
};

}  // namespace

std::vector<bool> OwnNames(const std::vector<Token>& tokens) {
  const Words names = Finder(tokens).Find();
  std::vector<bool> own(tokens.size(), false);
  const auto text = [&](size_t i) {
    return i < tokens.size() ? tokens[i].text : std::string_view();
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != Token::Kind::kWord || names.count(text(i)) == 0) continue;
    const std::string_view before = i > 0 ? text(i - 1) : std::string_view();
    const bool member = before == "." || (before == ">" && i > 1 && text(i - 2) == "-");
    const bool scoped = before == ":" && i > 1 && text(i - 2) == ":";
    const bool coordinate = text(i).size() == 1 && text(i)[0] >= 'w' && text(i)[0] <= 'z';
    own[i] = !scoped && !(member && (coordinate || text(i + 1) == "("));
  }
  return own;
}

}  // namespace cupel::evolve
