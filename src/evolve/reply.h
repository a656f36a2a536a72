// Reads a language model's answer to a request for one kernel: a name, a thought and either the
// whole kernel in a fenced code block or edits of the kernel that it was shown. Answers are
// hostile text: whatever is not the format is an error that can be given back to the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::evolve {

inline constexpr size_t kMaxReplyBytes = 16u << 20;

/// Whole lines that stand in the kernel once, and the lines to put in their place. Lines are
/// separated by '\n'; the last has none.
struct Edit {
  std::string search, replace;
};

struct Reply {
  std::string name, thought;        // bounded; empty where the answer gives none
  std::optional<std::string> code;  // a whole kernel
  std::vector<Edit> edits;          // or else these; both absent only when `done`
  bool done = false;                // "I am done": nothing (more) to change
};

/// Reasoning between <think> tags is left out, CRLF read as LF. A closing fence does not count
/// inside a comment or a raw string of the code. Of several code blocks the last is the kernel if
/// it and no other holds PYBIND11_MODULE or TORCH_LIBRARY; otherwise they are ambiguous, as are a
/// code block and edits in one answer. Error kInvalidArgument: what is missing or wrong and how the
/// format is meant, fit to be given back to the model.
Result<Reply> ReadReply(std::string_view text);

/// The format as it is described to models, for whole kernels and for edits.
std::string_view RewriteFormat();
std::string_view EditFormat();

}  // namespace cupel::evolve
