// Reads a language model's answer to a request for one kernel: a name, a thought, and either the
// whole kernel in a fenced code block or edits of the kernel in the prompt. Answers are untrusted
// text. Any deviation from the format is an error whose text can be sent to the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evolve/form.h"

namespace cupel::evolve {

inline constexpr size_t kMaxReplyBytes = 16u << 20;

/// Whole lines that occur once in the kernel, and the lines that replace them. Lines are separated
/// by '\n'; the last line has none.
struct Edit {
  std::string search, replace;
};

struct Reply {
  std::string name, thought;        // bounded; empty if the answer has none
  std::vector<int> ideas;           // the numbers of the listed ideas that it uses, from 1
  std::optional<std::string> code;  // a whole kernel
  std::vector<Edit> edits;          // if there is no code; both are absent only if `done`
  bool done = false;                // "I am done": no (further) change
};

/// Skips reasoning between <think> tags and reads CRLF as LF. Ignores closing fences inside
/// comments and strings of the code. Of several code blocks, the last is the kernel if only it
/// contains PYBIND11_MODULE or TORCH_LIBRARY, or for Python the class ModelNew. Other answers with
/// several blocks are ambiguous, and so is a code block together with edits. Error kInvalidArgument
/// says what is missing or wrong and explains the format; its text can be sent to the model.
Result<Reply> ReadReply(std::string_view text, Form form = Form::kCuda);

/// The description of the format in prompts, for whole kernels and for edits. `ideas`: the prompt
/// lists some, and the answer names those that it uses.
std::string RewriteFormat(Form form = Form::kCuda, bool ideas = false);
std::string EditFormat(bool ideas = false);

}  // namespace cupel::evolve
