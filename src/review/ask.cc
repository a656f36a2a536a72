// The conversation with one reviewer, and all of them at once.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "base/lanes.h"
#include "review/answer.h"
#include "review/neutral.h"
#include "review/neutral_python.h"
#include "review/prompt.h"
#include "review/review.h"

namespace cupel::review {
namespace {

class Conversation {
 public:
  Conversation(Opinion& opinion, llm::Asker& model)
      : opinion_(opinion), model_(model), role_(fmt::format("reviewer:{}", Name(opinion.aspect))) {}

  /// Asks, and asks once more if the answer is unusable. Returns nullopt if no answer is usable;
  /// the opinion then says why. Extends `request` to the last question. Error kCancelled.
  Result<std::optional<Stated>> Ask(llm::Request& request) {
    for (bool again = false;; again = true) {
      opinion_.exchange = model_.HashOf(request);
      const Result<llm::Answer> answer = model_.Ask(role_, request);
      if (!answer) {
        if (answer.error().code == ErrorCode::kCancelled) return tl::unexpected(answer.error());
        opinion_.reason = answer.error().message;
        return std::optional<Stated>();
      }
      opinion_.usd += answer->usd;
      opinion_.input_tokens += answer->usage.input_tokens;
      opinion_.output_tokens += answer->usage.output_tokens;
      text_ = answer->text;
      Result<Stated> stated = ReadAnswer(text_);
      if (stated) return std::optional<Stated>(std::move(*stated));
      opinion_.reason = stated.error().message;
      if (answer->stop == llm::Stop::kLength)
        opinion_.reason += "; it was cut: answer more briefly";
      if (again) return std::optional<Stated>();
      request = Continued(std::move(request), text_, FormatQuestion(opinion_.reason));
    }
  }
  const std::string& text() const { return text_; }

 private:
  Opinion& opinion_;
  llm::Asker& model_;
  const std::string role_;
  std::string text_;
};

void Take(const Stated& stated, const std::string& shown, Opinion& opinion) {
  opinion.usable = true;
  opinion.fine = stated.fine;
  opinion.confidence = stated.confidence;
  opinion.reason = stated.reason;
  opinion.line = stated.fine ? "" : stated.line;
  opinion.line_number = stated.fine ? 0 : FindQuote(shown, stated);
}

}  // namespace

Result<Opinion> AskReviewer(const Subject& subject, Aspect aspect, llm::Asker& model,
                            const std::string& instructions, const ReviewOptions& options) {
  Opinion opinion;
  opinion.aspect = aspect;
  opinion.model = model.model();
  if (subject.source.size() > kMaxShownSource) {
    opinion.reason =
        fmt::format("the source has more than {} bytes, too many for a prompt", kMaxShownSource);
    return opinion;
  }
  const std::string shown =
      subject.is_python ? NeutralisedPython(subject.source) : Neutralised(subject.source);
  llm::Request request = FirstQuestion(subject, shown, instructions);
  request.sample = subject.sample;
  Conversation conversation(opinion, model);
  TRY_ASSIGN(const std::optional<Stated> first, conversation.Ask(request));
  if (!first) return opinion;
  Take(*first, shown, opinion);
  if (!options.reflect) return opinion;
  request = Continued(std::move(request), conversation.text(), ReflectQuestion());
  TRY_ASSIGN(const std::optional<Stated> second, conversation.Ask(request));
  // Keep the first answer if the reflection is unusable.
  opinion.first_fine = first->fine;
  opinion.first_confidence = first->confidence;
  Take(second ? *second : *first, shown, opinion);
  return opinion;
}

Result<Review> AskReviewers(const Subject& subject, const std::vector<llm::Asker*>& models,
                            const ReviewOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Review review;
  review.opinions.resize(models.size() * kAspects);
  const size_t count = review.opinions.size();
  TRY(ForEachOnLanes(count, count, [&](size_t, size_t i) -> Status {
    const Aspect aspect = kAllAspects[i % kAspects];
    TRY_ASSIGN(review.opinions[i], AskReviewer(subject, aspect, *models[i / kAspects],
                                               options.instructions[i % kAspects], options));
    return {};
  }));
  for (const Opinion& opinion : review.opinions) review.usd += opinion.usd;
  const auto taken = std::chrono::steady_clock::now() - start;
  review.seconds = std::chrono::duration<double>(taken).count();
  Count(review, options);
  return review;
}

}  // namespace cupel::review
