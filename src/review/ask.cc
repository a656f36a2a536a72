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

/// What a conversation has cost so far.
struct Spent {
  double usd = 0;
  int64_t input_tokens = 0, output_tokens = 0;
};

class Conversation {
 public:
  Conversation(llm::Asker& model, const ReviewOptions& options)
      : model_(model),
        options_(options),
        role_(options.aspects.size() == 1 ? fmt::format("reviewer:{}", Name(options.aspects[0]))
                                          : "reviewer") {
    for (const Aspect aspect : options.aspects) {
      Opinion& opinion = opinions_.emplace_back();
      opinion.aspect = aspect;
      opinion.model = model.model();
    }
  }

  /// The only Error is kCancelled.
  Status Begin(const Subject& subject) {
    if (subject.source.size() > kMaxShownSource) {
      SetReason(
          fmt::format("the source has more than {} bytes, too many for a prompt", kMaxShownSource));
      return {};
    }
    shown_ = subject.is_python ? NeutralisedPython(subject.source) : Neutralised(subject.source);
    request_ = FirstQuestion(subject, shown_, options_);
    request_.sample = subject.sample;
    TRY_ASSIGN(const auto stated, Ask());
    if (stated) Take(*stated);
    return {};
  }

  /// Keeps the first opinions if the new ones are unusable. The only Error is kCancelled.
  Status Reconsider() {
    if (!opinions_.front().usable) return {};
    request_ = Continued(std::move(request_), text_, ReflectQuestion(options_.aspects));
    const std::vector<Opinion> before = opinions_;
    TRY_ASSIGN(const auto stated, Ask());
    if (stated) Take(*stated);
    for (size_t i = 0; i < opinions_.size(); ++i) {
      if (!stated) opinions_[i].reason = before[i].reason;
      opinions_[i].first_fine = before[i].fine;
      opinions_[i].first_confidence = before[i].confidence;
    }
    return {};
  }

  /// With the cost of the conversation divided among them.
  std::vector<Opinion> Opinions() const {
    std::vector<Opinion> opinions = opinions_;
    const auto count = static_cast<int64_t>(opinions.size());
    for (int64_t i = 0; i < count; ++i) {
      Opinion& one = opinions[static_cast<size_t>(i)];
      one.usd = spent_.usd / static_cast<double>(count);
      one.input_tokens = spent_.input_tokens / count + (i < spent_.input_tokens % count ? 1 : 0);
      one.output_tokens = spent_.output_tokens / count + (i < spent_.output_tokens % count ? 1 : 0);
    }
    return opinions;
  }

 private:
  /// Asks, and asks once more if the answer is unusable. Returns nullopt if no answer is usable;
  /// the opinions then say why. Extends `request_` to the last question.
  Result<std::optional<std::vector<Stated>>> Ask() {
    for (bool again = false;; again = true) {
      for (Opinion& opinion : opinions_) opinion.exchange = model_.HashOf(request_);
      const Result<llm::Answer> answer = model_.Ask(role_, request_);
      if (!answer) {
        if (answer.error().code == ErrorCode::kCancelled) return tl::unexpected(answer.error());
        SetReason(answer.error().message);
        return std::optional<std::vector<Stated>>();
      }
      spent_.usd += answer->usd;
      spent_.input_tokens += answer->usage.input_tokens;
      spent_.output_tokens += answer->usage.output_tokens;
      text_ = answer->text;
      auto stated = ReadAnswers(text_, options_.aspects);
      if (stated) return std::optional<std::vector<Stated>>(std::move(*stated));
      std::string problem = stated.error().message;
      if (answer->stop == llm::Stop::kLength) problem += "; it was cut: answer more briefly";
      SetReason(problem);
      if (again) return std::optional<std::vector<Stated>>();
      request_ = Continued(std::move(request_), text_, FormatQuestion(problem, options_.aspects));
    }
  }

  void SetReason(const std::string& reason) {
    for (Opinion& opinion : opinions_) opinion.reason = reason;
  }

  void Take(const std::vector<Stated>& stated) {
    for (size_t i = 0; i < opinions_.size(); ++i) {
      Opinion& opinion = opinions_[i];
      opinion.usable = true;
      opinion.fine = stated[i].fine;
      opinion.confidence = stated[i].confidence;
      opinion.reason = stated[i].reason;
      opinion.line = opinion.fine ? "" : stated[i].line;
      opinion.line_number = opinion.fine ? 0 : FindQuote(shown_, stated[i]);
    }
  }

  llm::Asker& model_;
  const ReviewOptions& options_;
  const std::string role_;
  std::vector<Opinion> opinions_;
  Spent spent_;
  std::string shown_;  // the source as the model sees it
  llm::Request request_;
  std::string text_;  // the last answer
};

Opinion Compiled() {
  Opinion opinion;
  opinion.aspect = Aspect::kCompile;
  opinion.model = "nvcc";
  opinion.usable = opinion.fine = true;
  opinion.confidence = 1;
  opinion.reason = "it was compiled";
  return opinion;
}

}  // namespace

Result<Review> AskReviewers(const Subject& subject, const std::vector<llm::Asker*>& models,
                            const ReviewOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Review review;
  std::vector<Conversation> conversations;
  conversations.reserve(models.size());
  for (llm::Asker* model : models) conversations.emplace_back(*model, options);
  const auto collect = [&] {
    review.opinions.clear();
    for (const Conversation& one : conversations) {
      if (options.compiled) review.opinions.push_back(Compiled());
      for (Opinion& opinion : one.Opinions()) review.opinions.push_back(std::move(opinion));
    }
  };
  const size_t count = models.size();
  TRY(ForEachOnLanes(count, count,
                     [&](size_t, size_t i) { return conversations[i].Begin(subject); }));
  collect();
  if (options.reflect && Disagree(review.opinions)) {
    TRY(ForEachOnLanes(count, count,
                       [&](size_t, size_t i) { return conversations[i].Reconsider(); }));
    collect();
  }
  for (const Opinion& opinion : review.opinions) review.usd += opinion.usd;
  const auto taken = std::chrono::steady_clock::now() - start;
  review.seconds = std::chrono::duration<double>(taken).count();
  Count(review, options);
  return review;
}

}  // namespace cupel::review
