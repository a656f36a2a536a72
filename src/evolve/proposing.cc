// SPDX-License-Identifier: Apache-2.0
#include "evolve/proposing.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <utility>

#include "evolve/edits.h"
#include "evolve/reply.h"

namespace cupel::evolve {
namespace {

constexpr const char* kRole = "proposer";

llm::Request FirstQuestion(const Slot& slot) {
  switch (slot.op) {
    case Operator::kRewrite:
      return RewritePrompt(slot.context);
    case Operator::kEdit:
      return EditPrompt(slot.context);
    case Operator::kCrossover:
      return CrossoverPrompt(slot.context);
  }
  return RewritePrompt(slot.context);
}

/// A dialogue with one model, for one proposal or for several in sequence.
class Dialogue {
 public:
  Dialogue(llm::Asker& model, const ProposingOptions& options) : model_(model), options_(options) {}

  Proposed Propose(const Slot& slot) {
    request_ = FirstQuestion(slot);
    return Finish(slot);
  }

  /// Asks for another proposal in the same conversation.
  Proposed ProposeAnother(const Slot& slot, int count, const std::vector<std::string>& siblings) {
    Continue(request_, std::exchange(answer_, ""),
             AnotherMessage(slot.number + 1, count, siblings));
    return Finish(slot);
  }

 private:
  Proposed Finish(const Slot& slot) {
    // Makes equal questions differ, within a generation and across generations.
    request_.sample = int64_t{options_.generation} * 1'000'000 + slot.number;
    Proposed proposed;
    if (!Ask(proposed)) return proposed;
    Take(slot, proposed);
    if (!proposed.problem.empty()) {
      Continue(request_, answer_, UnusableMessage(proposed.problem));
      if (!Ask(proposed)) return proposed;
      Take(slot, proposed);
    }
    for (int round = 1; round <= options_.reflections && proposed.problem.empty(); ++round) {
      if (Reflect(slot, round, proposed)) break;
    }
    return proposed;
  }

  /// Returns false if the model could not be asked; `proposed` then says why.
  bool Ask(Proposed& proposed) {
    proposed.exchange = model_.HashOf(request_);
    proposed.exchanges.push_back(proposed.exchange);
    auto answer = model_.Ask(kRole, request_);
    if (!answer) {
      proposed.not_asked = true;
      proposed.error = answer.error();
      proposed.problem = answer.error().ToString();
      return false;
    }
    answer_ = answer->text;
    stop_ = answer->stop;
    return true;
  }

  /// Reads the last answer.
  void Take(const Slot& slot, Proposed& proposed) {
    const auto kernel = Read(slot, proposed);
    proposed.problem = kernel ? "" : kernel.error().message;
    if (kernel) proposed.source = *kernel;
  }

  Result<std::string> Read(const Slot& slot, Proposed& proposed) {
    if (stop_ == llm::Stop::kRefusal) {
      return Fail(ErrorCode::kInvalidArgument, "the model declined to answer");
    }
    if (stop_ == llm::Stop::kLength) {
      return Fail(ErrorCode::kInvalidArgument,
                  "the answer was cut at the length limit: answer more briefly");
    }
    TRY_ASSIGN(Reply reply, ReadReply(answer_, slot.context.form));
    if (reply.done && !reply.code && reply.edits.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "the answer contains no kernel");
    }
    proposed.name = std::move(reply.name);
    proposed.thought = std::move(reply.thought);
    if (reply.code) return *std::move(reply.code);
    const std::string& base =
        proposed.source.empty() ? slot.context.parents.front().source : proposed.source;
    auto edited = ApplyEdits(base, reply.edits);
    if (edited || proposed.source.empty()) return edited;
    // The edits may apply to the parent again.
    return ApplyEdits(slot.context.parents.front().source, reply.edits);
  }

  /// Returns true if no further round is needed. An unreadable reflection changes nothing.
  bool Reflect(const Slot& slot, int round, Proposed& proposed) {
    Continue(request_, answer_, ReflectionMessage(round, options_.reflections));
    Proposed better = proposed;
    const bool answered = Ask(better);
    proposed.exchanges = better.exchanges;
    if (!answered) return true;
    const auto reply = ReadReply(answer_, slot.context.form);
    if (reply && reply->done && !reply->code && reply->edits.empty()) return true;
    Take(slot, better);
    if (!better.problem.empty()) return true;
    if (better.name.empty()) better.name = proposed.name;
    if (better.thought.empty()) better.thought = proposed.thought;
    proposed = std::move(better);
    return false;
  }

  llm::Asker& model_;
  const ProposingOptions& options_;
  llm::Request request_;
  std::string answer_;
  llm::Stop stop_ = llm::Stop::kEnd;
};

std::vector<Proposed> AskSequentially(const std::vector<Slot>& slots, llm::Asker& model,
                                      const ProposingOptions& options, std::atomic<int>& done) {
  Dialogue dialogue(model, options);
  std::vector<Proposed> all;
  std::vector<std::string> siblings;
  for (const Slot& slot : slots) {
    all.push_back(all.empty()
                      ? dialogue.Propose(slot)
                      : dialogue.ProposeAnother(slot, static_cast<int>(slots.size()), siblings));
    ++done;
    if (all.back().not_asked) break;  // the conversation cannot continue
    siblings.push_back(all.back().name);
  }
  while (all.size() < slots.size()) all.push_back(all.back());
  return all;
}

}  // namespace

const char* Name(Operator op) {
  switch (op) {
    case Operator::kRewrite:
      return "rewrite";
    case Operator::kEdit:
      return "edit";
    case Operator::kCrossover:
      return "crossover";
  }
  return "rewrite";
}

Result<std::vector<Proposed>> AskForProposals(const std::vector<Slot>& slots,
                                              const std::vector<llm::Asker*>& models,
                                              const ProposingOptions& options,
                                              const std::function<void(int done)>& progress) {
  std::atomic<int> done = 0;
  std::vector<std::future<std::vector<Proposed>>> parts;
  if (options.sequential && !slots.empty()) {
    parts.push_back(std::async(std::launch::async, [&] {
      return AskSequentially(slots, *models[slots.front().model], options, done);
    }));
  } else {
    for (const Slot& slot : slots) {
      parts.push_back(std::async(std::launch::async, [&] {
        return AskSequentially({slot}, *models[slot.model], options, done);
      }));
    }
  }
  std::vector<Proposed> all;
  for (auto& part : parts) {
    while (part.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      progress(done);
    }
    for (Proposed& proposed : part.get()) all.push_back(std::move(proposed));
  }
  if (options.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
  return all;
}

}  // namespace cupel::evolve
