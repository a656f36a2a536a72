// SPDX-License-Identifier: Apache-2.0
#include "evolve/reply_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/python_text.h"
#include "base/text.h"
#include "build/source_scan.h"

namespace cupel::evolve {
namespace {

constexpr size_t kMaxEdits = 256;
constexpr size_t kMaxBlocks = 32;  // each is scanned to the end of the answer

constexpr std::string_view kSearch = "<<<<<<< SEARCH";
constexpr std::string_view kDivider = "=======";
constexpr std::string_view kReplace = ">>>>>>> REPLACE";

/// Three or more backticks or tildes at the start of a line, and the text after them.
struct Fence {
  std::string_view marks, info;
};
std::optional<Fence> FenceOf(std::string_view line) {
  line = Trim(line);
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return std::nullopt;
  const size_t end = std::min(line.find_first_not_of(line[0]), line.size());
  const std::string_view info = Trim(line.substr(end));
  // A line with further backticks is inline code in prose.
  if (end < 3 || (line[0] == '`' && info.find('`') != std::string_view::npos)) return std::nullopt;
  return Fence{line.substr(0, end), info};
}

bool IsCodeBlock(const Fence& fence, Form form) {
  constexpr std::array<std::string_view, 9> kLanguages = {"",    "cuda", "cu", "cuh", "cpp",
                                                          "c++", "cc",   "c",  "cxx"};
  constexpr std::array<std::string_view, 5> kPythons = {"", "python", "py", "python3", "triton"};
  const std::string language = Lower(fence.info.substr(0, fence.info.find_first_of(" \t{,")));
  if (form == Form::kPython) {
    return std::find(kPythons.begin(), kPythons.end(), language) != kPythons.end();
  }
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

/// Reads a block to its closing fence. `lines` is at its opening fence.
Status ReadBlock(Lines& lines, const Fence& fence, Form form, ReplyParts& parts) {
  const bool is_code = IsCodeBlock(fence, form);
  const int opened = lines.number;
  const size_t begin = std::min(lines.next, lines.text.size());
  // A fence in a comment or string is text: it counts only if CodeOnly keeps it.
  const std::string_view rest = lines.text.substr(begin);
  const std::string code = !is_code                ? std::string()
                           : form == Form::kPython ? PythonCodeOnly(rest)
                                                   : build::CodeOnly(rest);
  const std::string_view seen = code;
  while (lines.Advance()) {
    const auto inner = FenceOf(lines.line);
    if (!inner || inner->marks[0] != fence.marks[0]) continue;
    const size_t at = lines.begin - begin;
    if (is_code && !FenceOf(seen.substr(at, lines.line.size()))) continue;
    if (inner->info.empty() && inner->marks.size() >= fence.marks.size()) {
      if (is_code) parts.code.emplace_back(lines.text.substr(begin, at));
      return {};
    }
    if (is_code) {
      return BadReply(
          fmt::format("line {}: a fence inside the code block that begins at line {}; close that "
                      "block first",
                      lines.number, opened));
    }
  }
  return BadReply(
      fmt::format("the answer was cut: the code block that begins at line {} has no closing "
                  "fence{}",
                  opened, is_code ? ", or a comment or string in it does not end" : ""));
}

/// Reads an edit. `lines` is at its first line.
Result<Edit> ReadEdit(Lines& lines) {
  const int opened = lines.number;
  const size_t begin = lines.next;
  size_t search_end = 0, replace_begin = 0;  // the latter is 0 before the divider
  const auto text_between = [&](size_t from, size_t to) {
    return to > from ? std::string(lines.text.substr(from, to - from - 1)) : std::string();
  };
  while (lines.Advance()) {
    const std::string_view line = Trim(lines.line);
    if (line == kDivider && replace_begin == 0) {
      search_end = lines.begin;
      replace_begin = lines.next;
    } else if (line == kReplace && replace_begin != 0) {
      return Edit{text_between(begin, search_end), text_between(replace_begin, lines.begin)};
    } else if (line == kDivider || line == kReplace || line == kSearch) {
      return BadReply(
          fmt::format("line {}: \"{}\" is not allowed there in the edit that begins at line {}",
                      lines.number, line, opened));
    }
  }
  return BadReply(
      fmt::format("the answer was cut: the edit that begins at line {} does not end with \"{}\"",
                  opened, kReplace));
}

/// Removes the edits from the text. The remaining text keeps its line numbers.
Result<std::string> TakeEdits(std::string_view text, ReplyParts& parts) {
  std::string rest;
  for (Lines lines{text}; lines.Advance();) {
    const std::string_view line = Trim(lines.line);
    if (line != kSearch) {
      rest.append(lines.line).push_back('\n');
      continue;
    }
    if (parts.edits.size() == kMaxEdits) {
      return BadReply(fmt::format("more than {} edits: send the whole kernel instead", kMaxEdits));
    }
    const int opened = lines.number;
    TRY_ASSIGN(Edit edit, ReadEdit(lines));
    parts.edits.push_back(std::move(edit));
    rest.append(static_cast<size_t>(lines.number) + 1 - static_cast<size_t>(opened), '\n');
  }
  return rest;
}

}  // namespace

tl::unexpected<Error> BadReply(std::string what) {
  return Fail(ErrorCode::kInvalidArgument, std::move(what),
              "answer with NAME:, THOUGHT: and then either one code block with the whole "
              "kernel, or edits as <<<<<<< SEARCH, =======, >>>>>>> REPLACE, and nothing after it");
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool Lines::Advance() {
  if (next >= text.size()) return false;
  begin = next;
  const size_t end = std::min(text.find('\n', begin), text.size());
  line = text.substr(begin, end - begin);
  next = end + 1;
  ++number;
  return true;
}

Result<ReplyParts> SplitReply(std::string_view text, Form form) {
  ReplyParts parts;
  TRY_ASSIGN(const std::string rest, TakeEdits(text, parts));
  size_t blocks = 0;
  for (Lines lines{rest}; lines.Advance();) {
    if (const auto fence = FenceOf(lines.line)) {
      if (++blocks > kMaxBlocks) {
        return BadReply(fmt::format("more than {} code blocks: send only the kernel", kMaxBlocks));
      }
      TRY(ReadBlock(lines, *fence, form, parts));
    } else {
      (blocks == 0 ? parts.prose : parts.after).append(lines.line).push_back('\n');
    }
  }
  return parts;
}

}  // namespace cupel::evolve
