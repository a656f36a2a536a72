// SPDX-License-Identifier: Apache-2.0
#include "evolve/translator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "evolve/candidates.h"
#include "evolve/prompt.h"
#include "evolve/reply.h"

namespace cupel::evolve {
namespace {

constexpr size_t kMaxSource = 1u << 20;
constexpr size_t kMostFailures = 4;  // at the start of a new conversation

/// The lessons that the "judge" stage recorded for a candidate that was not accepted.
Result<std::string> LessonsOf(const archive::Archive& archive, int64_t candidate) {
  TRY_ASSIGN(auto lessons, TextOfJudge(archive, candidate, "lessons"));
  if (lessons) return *std::move(lessons);
  return Fail(ErrorCode::kIo, fmt::format("candidate {} has a verdict without reasons", candidate),
              "start a new run");
}

class Translator {
 public:
  Translator(archive::Archive& archive, Evaluator& evaluator,
             const std::vector<llm::Asker*>& models, const TranslateOptions& options)
      : archive_(archive), evaluator_(evaluator), models_(models), options_(options) {}

  Result<Translation> Run() {
    TRY_ASSIGN(const auto events, archive_.Events());
    for (const archive::Event& event : events) {
      if (event.kind == "unusable") known_unusable_.insert(event.detail);
    }
    for (int conversation = 1; !Ended(); ++conversation) {
      TRY(Converse(conversation));
    }
    return std::move(translation_);
  }

 private:
  bool Ended() const {
    return translation_.kernel ||
           translation_.attempts.size() >= static_cast<size_t>(options_.attempts);
  }

  Status Converse(int conversation) {
    llm::Asker& model = *models_[static_cast<size_t>(conversation - 1) % models_.size()];
    TRY_ASSIGN(const PromptContext context, Context());
    llm::Request request = TranslatePrompt(context);
    request.sample = conversation;  // from 1, so that a replay finds it by its number
    parent_.reset();
    for (int i = 0; i < kAnswersAConversation && !Ended(); ++i) {
      const int number = static_cast<int>(translation_.attempts.size()) + 1;
      TRY(evaluator_.Report(
          fmt::format("asking {} (attempt {} of {})", model.model(), number, options_.attempts)));
      const std::string about = fmt::format("attempt {} of {}", number, options_.attempts);
      llm::Call call;
      call.about = about;
      TRY_ASSIGN(const llm::Answer answer, model.Ask("translator", request, call));
      Attempt attempt;
      attempt.number = number;
      attempt.model = model.model();
      TRY_ASSIGN(std::string message, Try(answer, model.HashOf(request), attempt));
      translation_.attempts.push_back(std::move(attempt));
      // End the conversation if the model gave no answer to continue from.
      if (answer.stop == llm::Stop::kRefusal || answer.text.empty()) break;
      Continue(request, answer.text, std::move(message));
    }
    return {};
  }

  /// The failed attempts, and the source of the last one.
  Result<PromptContext> Context() const {
    PromptContext context;
    context.form = evaluator_.form();
    context.operation = options_.operation;
    std::optional<int64_t> last;
    for (const Attempt& attempt : translation_.attempts) {
      if (!attempt.candidate) continue;
      context.failures.push_back({attempt.name, attempt.problem, ""});
      last = attempt.candidate;
    }
    if (last) {
      TRY_ASSIGN(context.failures.back().source, archive_.Source(*last));
    }
    if (context.failures.size() > kMostFailures) {
      context.failures.erase(context.failures.begin(), context.failures.end() - kMostFailures);
    }
    return context;
  }

  /// Adds the answer as a candidate and judges it. Returns the next message to the model.
  Result<std::string> Try(const llm::Answer& answer, const std::string& exchange,
                          Attempt& attempt) {
    auto reply = Read(answer);
    if (!reply) {
      attempt.problem = reply.error().ToString();
      TRY(NoteUnusable(attempt, exchange));
      return UnusableMessage(attempt.problem);
    }
    attempt.name = reply->name;
    TRY_ASSIGN(const int64_t id, Add(*reply, exchange, attempt));
    attempt.candidate = id;
    const bool repeated = std::any_of(translation_.attempts.begin(), translation_.attempts.end(),
                                      [&](const Attempt& old) { return old.candidate == id; });
    TRY(evaluator_.Evaluate(std::vector{id}));
    TRY_ASSIGN(const archive::Candidate candidate, archive_.Get(id));
    parent_ = id;
    // A view, because GCC 12 warns that the string itself may be uninitialised.
    const std::string_view decision = candidate.decision;
    attempt.accepted = decision == "accepted";
    if (attempt.accepted) {
      translation_.kernel = id;
      return std::string();
    }
    TRY_ASSIGN(attempt.problem, LessonsOf(archive_, id));
    if (candidate.decision == "error") {
      return Fail(ErrorCode::kInvalidArgument,
                  "kernels for this task cannot be judged: " + attempt.problem,
                  "check the task with cupel task controls and cupel task filter");
    }
    return RepairMessage((repeated ? "This is the same kernel as before.\n" : "") +
                         attempt.problem);
  }

  /// Error kInvalidArgument: the answer is unusable; the text is for the model.
  Result<Reply> Read(const llm::Answer& answer) const {
    if (answer.stop == llm::Stop::kRefusal) {
      return Fail(ErrorCode::kInvalidArgument, "the model refused to answer");
    }
    TRY_ASSIGN(Reply reply, ReadReply(answer.text, evaluator_.form()));
    if (!reply.code) {
      return Fail(ErrorCode::kInvalidArgument, "the answer contains no whole kernel",
                  std::string(RewriteFormat(evaluator_.form())));
    }
    if (reply.code->size() > kMaxSource) {
      return Fail(ErrorCode::kInvalidArgument, "the kernel is larger than 1 MiB");
    }
    return reply;
  }

  /// Records the attempt once, even if the run is repeated.
  Status NoteUnusable(const Attempt& attempt, const std::string& exchange) {
    const std::string detail = DumpJson(Json{{"generation", 0},
                                             {"model", attempt.model},
                                             {"exchange", exchange},
                                             {"reason", attempt.problem}});
    if (!known_unusable_.insert(detail).second) return {};
    return archive_.AddEvent("unusable", detail);
  }

  Result<int64_t> Add(const Reply& reply, const std::string& exchange, const Attempt& attempt) {
    archive::NewCandidate candidate;
    candidate.source = *reply.code;
    candidate.proposer = "llm:" + attempt.model;
    candidate.description = reply.name;
    if (parent_) candidate.parents = {*parent_};
    candidate.meta = DumpJson(Json{{"operator", "translate"},
                                   {"name", reply.name},
                                   {"thought", reply.thought},
                                   {"proposal", attempt.number},
                                   {"model", attempt.model},
                                   {"exchange", exchange}});
    TRY_ASSIGN(const archive::Archive::Added added, archive_.AddCandidate(candidate));
    if (added.added) TRY(archive_.AttributeExchange(exchange, added.id));
    return added.id;
  }

  archive::Archive& archive_;
  Evaluator& evaluator_;
  const std::vector<llm::Asker*>& models_;
  const TranslateOptions& options_;
  Translation translation_;
  std::optional<int64_t> parent_;  // the candidate that is being repaired
  std::set<std::string> known_unusable_;
};

}  // namespace

Result<Translation> Translate(archive::Archive& archive, Evaluator& evaluator,
                              const std::vector<llm::Asker*>& models,
                              const TranslateOptions& options) {
  CHECK(!models.empty());
  return Translator(archive, evaluator, models, options).Run();
}

}  // namespace cupel::evolve
