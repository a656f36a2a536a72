// SPDX-License-Identifier: Apache-2.0
#include "evolve/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/parse_number.h"
#include "base/python_text.h"
#include "base/text.h"
#include "build/source_scan.h"
#include "evolve/reply_parts.h"

namespace cupel::evolve {
namespace {

constexpr size_t kMaxNameBytes = 120;
constexpr size_t kMaxThoughtBytes = 8192;
constexpr size_t kMostIdeas = 16;

/// At most `limit` bytes; never cuts within a UTF-8 character.
std::string Bounded(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0u) == 0x80u) --limit;
  return std::string(text.substr(0, limit));
}

std::string WithoutCarriageReturns(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || i + 1 >= text.size() || text[i + 1] != '\n') plain += text[i];
  }
  return plain;
}

/// The text after the reasoning that some models put before their answer. A closing tag on its own
/// line counts even without an opening tag, because some servers drop the opening tag.
Result<std::string_view> AfterReasoning(std::string_view text) {
  for (const std::string_view tag : {"think", "thinking", "reasoning"}) {
    const std::string open = fmt::format("<{}>", tag);
    const std::string close = fmt::format("</{}>", tag);
    if (Trim(text).starts_with(open)) {
      const size_t end = text.find(close);
      if (end == std::string_view::npos) {
        return BadReply(
            fmt::format("the answer was cut: there is no {} and nothing after it", close));
      }
      return text.substr(end + close.size());
    }
    for (Lines lines{text}; lines.Advance();) {
      if (Trim(lines.line) == close) return text.substr(std::min(lines.next, text.size()));
    }
  }
  return text;
}

/// The text after `label:` in a line that begins with it; allows markdown decoration.
std::optional<std::string_view> Labelled(std::string_view line, std::string_view label) {
  line = line.substr(std::min(line.find_first_not_of(" \t*#_"), line.size()));
  if (line.size() < label.size() || Lower(line.substr(0, label.size())) != Lower(label)) {
    return std::nullopt;
  }
  line.remove_prefix(label.size());
  line = line.substr(std::min(line.find_first_not_of("*_ "), line.size()));
  if (line.empty() || line[0] != ':') return std::nullopt;
  line.remove_prefix(1);
  return Trim(line.substr(std::min(line.find_first_not_of("*_"), line.size())));
}

/// The distinct numbers in "2 and 3", up to the first other word; none in "none".
std::vector<int> NumbersIn(std::string_view text) {
  std::vector<int> numbers;
  for (size_t at = 0; at < text.size() && numbers.size() < kMostIdeas;) {
    const size_t end = std::min(text.find_first_of(" ,;&", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty() || word == "and") continue;
    const auto number = ParseNumber<int>(word);
    if (!number || *number < 1) break;
    if (std::ranges::find(numbers, *number) == numbers.end()) numbers.push_back(*number);
  }
  return numbers;
}

void ReadHeadings(std::string_view prose, Reply& reply) {
  std::string thought;
  bool in_thought = false;
  for (Lines lines{prose}; lines.Advance();) {
    if (const auto name = Labelled(lines.line, "NAME"); name && reply.name.empty()) {
      reply.name = Bounded(*name, kMaxNameBytes);
      in_thought = false;
    } else if (const auto first = Labelled(lines.line, "THOUGHT"); first && thought.empty()) {
      thought = std::string(*first) + '\n';
      in_thought = true;
    } else if (const auto ideas = Labelled(lines.line, "IDEAS"); ideas && reply.ideas.empty()) {
      reply.ideas = NumbersIn(*ideas);
      in_thought = false;
    } else if (Labelled(lines.line, "CODE") || Labelled(lines.line, "EDITS")) {
      in_thought = false;
    } else if (in_thought) {
      thought.append(lines.line).push_back('\n');
    }
  }
  reply.thought = Bounded(Trim(thought), kMaxThoughtBytes);
}

/// "I am done", perhaps with a reason after it, but not "I am done with the first step".
bool SaysDone(std::string_view prose) {
  constexpr std::string_view kDone = "i am done";
  for (Lines lines{prose}; lines.Advance();) {
    const size_t begin = lines.line.find_first_not_of(" \t*_#\"'");
    if (begin == std::string_view::npos) continue;
    const std::string_view said = lines.line.substr(begin);
    if (Lower(said.substr(0, kDone.size())) != kDone) continue;
    if (said.size() == kDone.size() ||
        std::ispunct(static_cast<unsigned char>(said[kDone.size()]))) {
      return true;
    }
  }
  return false;
}

bool HoldsModule(std::string_view code, Form form) {
  if (form == Form::kPython) {
    return PythonCodeOnly(code).find("class ModelNew") != std::string::npos;
  }
  const std::string seen = build::CodeOnly(code);
  return seen.find("PYBIND11_MODULE") != std::string::npos ||
         seen.find("TORCH_LIBRARY") != std::string::npos;
}

/// The index of the code block with the kernel.
Result<size_t> ChooseKernel(const std::vector<std::string>& code, Form form) {
  if (code.size() == 1) return size_t{0};
  const auto holds = [form](const std::string& block) { return HoldsModule(block, form); };
  const auto kernels = std::count_if(code.begin(), code.end(), holds);
  if (kernels == 1 && holds(code.back())) return code.size() - 1;
  return BadReply(fmt::format(
      "the answer has {} code blocks, {} of them with {}: the kernel must be the last "
      "block, and the only whole kernel",
      code.size(), kernels, form == Form::kPython ? "class ModelNew" : "PYBIND11_MODULE"));
}

}  // namespace

Result<Reply> ReadReply(std::string_view text, Form form) {
  if (text.size() > kMaxReplyBytes) {
    return BadReply(
        fmt::format("the answer has {} bytes, more than {}", text.size(), kMaxReplyBytes));
  }
  if (text.find('\0') != std::string_view::npos)
    return BadReply("the answer contains a NUL character");
  const std::string plain = WithoutCarriageReturns(text);
  TRY_ASSIGN(const std::string_view answer, AfterReasoning(plain));
  TRY_ASSIGN(ReplyParts parts, SplitReply(answer, form));
  // Ignore empty blocks, such as fences around edits.
  std::erase_if(parts.code, [](const std::string& code) { return Trim(code).empty(); });
  Reply reply;
  reply.done = SaysDone(parts.prose) || SaysDone(parts.after);
  reply.edits = std::move(parts.edits);
  ReadHeadings(parts.prose, reply);
  if (!parts.code.empty()) {
    if (!reply.edits.empty())
      return BadReply("the answer has both edits and a code block: send only one of them");
    TRY_ASSIGN(const size_t kernel, ChooseKernel(parts.code, form));
    reply.code = std::move(parts.code[kernel]);
  }
  if (!reply.code && reply.edits.empty() && !reply.done) {
    return BadReply(Trim(answer).empty() ? "the answer is empty"
                                         : "the answer has neither a code block nor edits");
  }
  return reply;
}

namespace {

std::string Heading(bool ideas) {
  std::string text =
      "Answer in exactly this form:\n\n"
      "NAME: a short name for the kernel, in words joined by underscores\n"
      "THOUGHT: what you change, in the first sentence; then why it should be faster, in a few "
      "sentences\n";
  if (ideas)
    text += "IDEAS: the numbers of the listed ideas that you use, such as 1 or 1, 2; or none\n";
  return text;
}

}  // namespace

std::string RewriteFormat(Form form, bool ideas) {
  if (form == Form::kPython) {
    return Heading(ideas) + R"(```python
the whole Python file, from its imports to the class ModelNew
```

Give exactly one code block with the complete file: omit nothing, and do not write "rest as before".
Close the block with its fence and write nothing after it.
)";
  }
  return Heading(ideas) + R"(```cuda
the whole .cu file, from the first #include to PYBIND11_MODULE
```

Give exactly one code block with the complete file: omit nothing, and do not write "rest as before".
Close the block with its fence and write nothing after it. A tuner tries other values of the integer
constants that you mark like this, so mark those that may change without changing the result:
  constexpr int kThreads = 256;  // tune: kThreads in 128, 256, 512
)";
}

std::string EditFormat(bool ideas) {
  return Heading(ideas) + R"(<<<<<<< SEARCH
lines of the kernel, unchanged
=======
the lines that replace them
>>>>>>> REPLACE

Give as many such edits as you need. SEARCH contains whole lines copied exactly, with indentation and
comments, and enough of them that they occur once in the file. Each edit refers to the file in the
prompt, not to the result of another edit, and edits must not overlap. To delete the found lines,
write no lines after =======. To insert lines, repeat a neighbouring line. Do not repeat the whole
file.
)";
}

}  // namespace cupel::evolve
