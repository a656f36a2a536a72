// SPDX-License-Identifier: Apache-2.0
#include "evolve/novelty.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>

#include "base/python_text.h"
#include "evolve/own_names.h"
#include "evolve/tokens.h"

namespace cupel::evolve {
namespace {

/// Tokens in a run. Long enough that two kernels rarely share a run by chance. Longer runs make
/// small changes count more.
constexpr size_t kRunTokens = 12;

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;  // keeps hashes from staying at 0

uint64_t Mix(uint64_t h) {  // the finaliser of SplitMix64
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

uint64_t HashOf(std::string_view text) {  // FNV-1a
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Mix(h);
}

/// The canonical spelling of a literal: 0.f for 0.0f, 256 for 0x100. Keeps the suffix, which
/// determines the type.
std::string Literal(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '\'') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  }
  const bool hex = plain.starts_with("0x");
  const char* const begin = plain.data() + (hex ? 2 : 0);
  const char* const end = plain.data() + plain.size();
  if (plain.find_first_of(hex ? ".p" : ".e") == std::string::npos) {
    uint64_t value = 0;
    const bool octal = !hex && plain.size() > 1 && plain[0] == '0' && plain[1] != 'b';
    const auto read = std::from_chars(begin, end, value, hex ? 16 : octal ? 8 : 10);
    return read.ec == std::errc() ? fmt::format("{}{}", value, read.ptr) : plain;
  }
  double value = 0;
  const auto format = hex ? std::chars_format::hex : std::chars_format::general;
  const auto read = std::from_chars(begin, end, value, format);
  return read.ec == std::errc() ? fmt::format("{:a}{}", value, read.ptr) : plain;
}

/// A token: its hash or, if the file declares the name, its number by first appearance in the file.
struct Symbol {
  uint64_t value = 0;
  bool own = false;
};

uint64_t HashOfRun(const Symbol* begin, size_t count) {
  uint64_t names[kRunTokens];
  size_t known = 0;
  uint64_t h = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t value = begin[i].value;
    if (begin[i].own) {
      const size_t index = static_cast<size_t>(std::find(names, names + known, value) - names);
      if (index == known) names[known++] = value;
      value = index;
    }
    h = Mix(h ^ value) + kGolden;
  }
  return h;
}

/// The tokens that affect behaviour: drops comments, and empties strings except assembly and file
/// names of includes.
std::vector<Token> SignificantTokens(std::string_view source) {
  std::vector<Token> tokens;
  bool in_assembly = false;
  for (Token token : Tokenize(source)) {
    if (token.kind == Token::Kind::kLineComment) continue;
    if (token.text == ";") in_assembly = false;
    if (token.text == "asm" || token.text == "__asm__" || token.text == "__asm") in_assembly = true;
    const bool included = !tokens.empty() && tokens.back().text == "include";
    if (token.kind == Token::Kind::kString && !in_assembly && !included) token.text = "\"\"";
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

std::string CodeOfProgram(std::string_view program) {
  std::string code;
  bool at_line_start = true;
  for (const PythonPiece& piece : SplitPython(program)) {
    switch (piece.kind) {
      case PythonPiece::Kind::kCode: {
        // "//" divides in Python, and begins a comment in C++.
        for (const char c : piece.text) code.append(c == '/' ? "/ " : std::string(1, c));
        const std::string_view line = piece.text.substr(piece.text.rfind('\n') + 1);
        at_line_start = line.find_first_not_of(" \t") == std::string_view::npos &&
                        (at_line_start || line.size() < piece.text.size());
        break;
      }
      case PythonPiece::Kind::kComment:
        break;
      case PythonPiece::Kind::kString: {
        const bool is_long = piece.content.data() - piece.text.data() == 3;
        const bool is_doc = is_long && at_line_start && !IsCudaCode(piece.content);
        // Names, flags and the code of kernels are in strings, too.
        if (!is_doc) code.append("\n").append(piece.content).append("\n");
        at_line_start = false;
        break;
      }
    }
  }
  return code;
}

Shingles::Shingles(std::string_view source) {
  const std::vector<Token> tokens = SignificantTokens(source);
  const std::vector<bool> own = OwnNames(tokens);
  std::unordered_map<std::string_view, uint64_t> names;
  std::vector<Symbol> symbols;
  symbols.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (own[i]) {
      symbols.push_back({names.try_emplace(text, names.size()).first->second, true});
    } else {
      const bool number = tokens[i].kind == Token::Kind::kNumber;
      symbols.push_back({number ? HashOf(Literal(text)) : HashOf(text), false});
    }
    fingerprint_ = Mix(fingerprint_ ^ symbols.back().value) + kGolden;
  }
  if (symbols.empty()) return;
  const size_t count = std::min(kRunTokens, symbols.size());
  for (size_t i = 0; i + count <= symbols.size(); ++i) {
    runs_.push_back(HashOfRun(symbols.data() + i, count));
  }
  std::sort(runs_.begin(), runs_.end());
}

double Similarity(const Shingles& a, const Shingles& b) {
  size_t shared = 0;
  auto x = a.runs().begin();
  auto y = b.runs().begin();
  while (x != a.runs().end() && y != b.runs().end()) {
    if (*x == *y) ++shared;
    const bool step_x = *x <= *y;
    const bool step_y = *y <= *x;
    x += step_x;
    y += step_y;
  }
  const size_t all = a.runs().size() + b.runs().size() - shared;
  return all == 0 ? 1 : static_cast<double>(shared) / static_cast<double>(all);
}

std::optional<Nearest> FindNearest(const Shingles& of, std::span<const Shingles> among) {
  std::optional<Nearest> nearest;
  for (size_t i = 0; i < among.size(); ++i) {
    const Nearest next{i, Similarity(of, among[i]), IsCopy(of, among[i])};
    const bool nearer =
        !nearest ||
        (next.is_copy != nearest->is_copy ? next.is_copy : next.similarity > nearest->similarity);
    if (nearer) nearest = next;
  }
  return nearest;
}

}  // namespace cupel::evolve
