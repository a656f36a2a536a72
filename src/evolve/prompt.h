// What models are asked: to translate, repair, rewrite, edit, cross, differ, reflect, and to write
// new hints. The same context gives the same bytes: answers are found again by them. Nothing of the
// machine, the time or the judge's inputs is in a prompt. What the model's answers must look like
// is in reply.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/request.h"

namespace cupel::evolve {

/// Bytes of a prompt's first message; the least useful parts are left out above it.
inline constexpr size_t kMaxPrompt = 96u << 10;

/// A kernel that was judged right.
struct KnownKernel {
  std::string name;
  std::string source;
  std::string objective;  // "8.27 us (estimate)"
};

/// One that new kernels are made from.
struct ParentKernel : KnownKernel {
  std::string feedback;                      // FeedbackPage
  std::vector<std::string> recommendations;  // Recommend
};

struct FailedAttempt {
  std::string name;
  std::string lesson;
};

/// Parts that do not apply are empty.
struct PromptContext {
  std::string operation;              // Text(Operation)
  std::vector<ParentKernel> parents;  // none to translate, one to rewrite or edit, two to cross
  std::vector<KnownKernel> examples;  // the slowest first
  std::vector<std::string> siblings;  // names of this generation's proposals so far
  std::vector<std::string> hints;
  std::vector<FailedAttempt> failures;  // recent ones, the latest last
};

// Conversations begin with one of these.
llm::Request TranslatePrompt(const PromptContext& context);
llm::Request RewritePrompt(const PromptContext& context);
llm::Request EditPrompt(const PromptContext& context);
llm::Request CrossoverPrompt(const PromptContext& context);

// What is said next in one; `Continue` appends it behind the model's answer.
/// `lessons`: Lessons of the verdict.
std::string RepairMessage(std::string_view lessons);
/// `problem`: what ReadReply or ApplyEdits objects to.
std::string UnusableMessage(std::string_view problem);
/// Proposal `number` of `count`, not like those of `siblings`.
std::string AnotherMessage(int number, int count, const std::vector<std::string>& siblings);
/// Round `round` of `rounds`: consider again, or say that it is done.
std::string ReflectionMessage(int round, int rounds);
void Continue(llm::Request& request, std::string answer, std::string message);

/// The number of a question about one kernel (llm::Request::sample): a replay finds its answer by
/// it also where the words of the question have changed since.
int64_t SampleOf(std::string_view source);

/// A hint with what proposals that were given it have earned.
struct TriedHint {
  std::string text;
  double tried = 0, earned = 0;
};
/// Asks for one new hint made from `hints`, the ones that earned most first.
llm::Request HintPrompt(std::string_view operation, const std::vector<TriedHint>& hints);
/// The hint in an answer "HINT: …". Error kInvalidArgument: none, several, or too long.
Result<std::string> ReadHint(std::string_view answer);

}  // namespace cupel::evolve
