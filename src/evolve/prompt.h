// The prompts for models: translate, repair, rewrite, edit, cross, vary, and write new hints. The
// same context gives the same bytes, because recorded answers are found by the hash of the prompt.
// Prompts contain nothing about the machine, the time or the judge's inputs. reply.h has the format
// of the answers. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evolve/form.h"
#include "evolve/reply.h"
#include "llm/request.h"

namespace cupel::evolve {

/// Maximum bytes of a prompt's first message. Above it, the least useful parts are omitted.
inline constexpr size_t kMaxPrompt = 96u << 10;

/// An accepted kernel.
struct KnownKernel {
  std::string name;
  std::string source;
  std::string objective;        // "8.27 us (estimate)"
  std::string idea = {};        // its author's, in a sentence
  std::string bottleneck = {};  // what limits it: "memory bandwidth"
};

/// A kernel that new kernels are made from.
struct ParentKernel : KnownKernel {
  std::string feedback;                      // FeedbackPage
  std::vector<std::string> recommendations;  // Recommend
  bool advised_before_tuning = false;        // they are about the kernel with other constants
};

struct FailedAttempt {
  std::string name;
  std::string lesson;
  std::string source = {};  // only if the model should see it again
};

/// Members that do not apply are empty.
struct PromptContext {
  Form form = Form::kCuda;            // of all kernels here, and of the answer
  std::string operation;              // Text(Operation)
  std::string floor;                  // "62.4 us": to move all data once; empty: unknown
  int compared = 1;                   // settings, over which times are geometric means
  std::vector<ParentKernel> parents;  // none to translate, one to rewrite or edit, two to cross
  std::vector<KnownKernel> examples;  // the slowest first; without a source: named only
  std::vector<std::string> siblings;  // names of this generation's proposals so far
  std::vector<std::string> hints;
  std::vector<std::string> proven;      // Text(ProvenIdea) of other runs
  std::vector<FailedAttempt> failures;  // recent ones, the latest last
};

// The first message of a conversation.
llm::Request TranslatePrompt(const PromptContext& context);
llm::Request RewritePrompt(const PromptContext& context);
llm::Request EditPrompt(const PromptContext& context);
llm::Request CrossoverPrompt(const PromptContext& context);

// The next messages of a conversation. `Continue` appends one after the model's answer.
/// `lessons`: Lessons of the verdict.
std::string RepairMessage(std::string_view lessons);
/// `problem`: the error of ReadReply.
std::string UnusableMessage(std::string_view problem);
/// Asks for proposal `number` of `count`, which must differ from `siblings`.
std::string AnotherMessage(int number, int count, const std::vector<std::string>& siblings);
void Continue(llm::Request& request, std::string answer, std::string message);

/// A question of its own, without the conversation before it: `problem` is the error of ApplyEdits,
/// `edits` are those that failed, and `region` is the part of the kernel around them. The answer
/// has only edits.
llm::Request EditRepairPrompt(std::string_view problem, const std::vector<Edit>& edits,
                              std::string_view region, Form form);

/// The number of a question about one kernel (llm::Request::sample). A replay finds the answer by
/// it even if the wording of the question has changed.
int64_t SampleOf(std::string_view source);

/// A hint with the rewards of the proposals that got it.
struct TriedHint {
  std::string text;
  double tried = 0, earned = 0;
};
/// Asks for one new hint based on `hints`, highest rewards first.
llm::Request HintPrompt(std::string_view operation, const std::vector<TriedHint>& hints);
/// Reads the hint from an answer "HINT: …". Error kInvalidArgument: no hint, several hints, or a
/// hint that is too long.
Result<std::string> ReadHint(std::string_view answer);

}  // namespace cupel::evolve
