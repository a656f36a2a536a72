// SPDX-License-Identifier: Apache-2.0
#include "evolve/proposing.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "evolve/edits.h"
#include "evolve/fault_desk.h"
#include "evolve/reply.h"

namespace cupel::evolve {
namespace {

constexpr const char* kRole = "proposer";
constexpr const char* kEditRole = "proposer:edits";  // a question of its own
constexpr std::chrono::milliseconds kShowEvery{100};

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
  Dialogue(llm::Asker& model, const ProposingOptions& options, const ProposingWork& work,
           FaultDesk& desk)
      : model_(model), options_(options), work_(work), desk_(desk) {}

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
    about_ = AboutOf(slot);
    // Makes equal questions differ, within a generation and across generations.
    request_.sample = int64_t{options_.generation} * 1'000'000 + slot.number;
    Proposed proposed;
    for (int repairs = 0; Attempted(slot, proposed); ++repairs) {
      const std::string& source = proposed.kernels.back().source;
      work_.prepare(source);
      const auto fault = desk_.Ask(source);
      if (!fault) {
        proposed.error = fault.error();
        break;
      }
      if (fault->empty() || repairs >= options_.repairs) break;
      Continue(request_, answer_, RepairMessage(*fault));
    }
    return proposed;
  }

  std::string AboutOf(const Slot& slot) const {
    std::string text = fmt::format("generation {}, proposal {} ({})", options_.generation,
                                   slot.number + 1, Name(slot.op));
    for (size_t i = 0; i < slot.parents.size() && i < slot.context.parents.size(); ++i) {
      text += fmt::format("{} candidate {} ({})", i == 0 ? ", from" : " and", slot.parents[i],
                          slot.context.parents[i].name);
    }
    return text;
  }

  /// Asks for a kernel, and once more if the answer is unusable. Returns false if there is no new
  /// one; `proposed` then says why, unless the model has nothing to add.
  bool Attempted(const Slot& slot, Proposed& proposed) {
    ProposedKernel attempt;
    proposed.problem.clear();
    if (!Ask(kRole, request_, attempt, proposed)) return false;
    std::optional<EditProblem> edits;
    Take(slot, proposed, attempt, edits);
    if (edits && !edits->region.empty()) {
      CorrectEdits(slot, proposed, attempt, *edits);
    } else if (!proposed.problem.empty()) {
      Continue(request_, answer_, UnusableMessage(proposed.problem));
      if (!Ask(kRole, request_, attempt, proposed)) return false;
      Take(slot, proposed, attempt, edits);
    }
    proposed.exchange = attempt.exchange;
    if (!proposed.problem.empty() || attempt.source.empty()) return false;
    const bool known = std::ranges::any_of(
        proposed.kernels, [&](const ProposedKernel& old) { return old.source == attempt.source; });
    if (known) return false;
    proposed.kernels.push_back(std::move(attempt));
    return true;
  }

  /// Returns false if the model could not be asked; `proposed` then says why.
  bool Ask(const char* role, const llm::Request& request, ProposedKernel& attempt,
           Proposed& proposed) {
    attempt.exchange = model_.HashOf(request);
    attempt.exchanges.push_back(attempt.exchange);
    llm::Call call;
    call.about = about_;
    auto answer = model_.Ask(role, request, call);
    if (!answer) {
      // What was proposed before stays.
      proposed.not_asked = proposed.kernels.empty();
      proposed.error = answer.error();
      proposed.problem = answer.error().ToString();
      return false;
    }
    answer_ = answer->text;
    stop_ = answer->stop;
    return true;
  }

  /// Reads the last answer into `attempt`, or sets the problem.
  void Take(const Slot& slot, Proposed& proposed, ProposedKernel& attempt,
            std::optional<EditProblem>& edits) {
    edits_.clear();
    const auto reply = ReadAnswer(slot);
    proposed.problem = reply ? "" : reply.error().message;
    if (!reply) return;
    attempt.name = reply->name;
    attempt.thought = reply->thought;
    attempt.ideas = reply->ideas;
    if (reply->code) {
      attempt.source = *reply->code;
    } else {
      edits_ = reply->edits;
      Apply(slot, proposed, attempt, edits);
    }
  }

  Result<Reply> ReadAnswer(const Slot& slot) const {
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
    return reply;
  }

  /// Edits refer to the attempt that is repaired, or to the parent.
  void Apply(const Slot& slot, Proposed& proposed, ProposedKernel& attempt,
             std::optional<EditProblem>& problem) {
    const std::string& parent = slot.context.parents.front().source;
    const std::string& base = proposed.kernels.empty() ? parent : proposed.kernels.back().source;
    auto edited = ApplyEdits(base, edits_);
    if (!edited && &base != &parent) {
      if (auto again = ApplyEdits(parent, edits_)) edited = std::move(again);
    }
    problem.reset();
    proposed.problem.clear();
    if (edited) {
      attempt.source = *std::move(edited);
    } else {
      proposed.problem = edited.error().message;
      problem = std::move(edited.error());
    }
  }

  /// Asks for the edits that failed alone, without the conversation before them.
  void CorrectEdits(const Slot& slot, Proposed& proposed, ProposedKernel& attempt,
                    const EditProblem& problem) {
    std::vector<Edit> failed;
    failed.reserve(problem.edits.size());
    for (const size_t index : problem.edits) failed.push_back(edits_[index]);
    llm::Request request =
        EditRepairPrompt(problem.message, failed, problem.region, slot.context.form);
    request.sample = request_.sample;
    const std::string whole = answer_;
    const bool asked = Ask(kEditRole, request, attempt, proposed);
    const auto reply = asked ? ReadAnswer(slot) : tl::unexpected(Error{});
    answer_ = whole;  // of the conversation that may go on
    if (!reply) return;
    if (reply->code) {
      attempt.source = *reply->code;
      proposed.problem.clear();
      return;
    }
    for (auto index = problem.edits.rbegin(); index != problem.edits.rend(); ++index) {
      edits_.erase(edits_.begin() + static_cast<std::ptrdiff_t>(*index));
    }
    edits_.insert(edits_.end(), reply->edits.begin(), reply->edits.end());
    std::optional<EditProblem> again;
    Apply(slot, proposed, attempt, again);
  }

  llm::Asker& model_;
  const ProposingOptions& options_;
  const ProposingWork& work_;
  FaultDesk& desk_;
  llm::Request request_;
  std::string about_;  // Call::about
  std::string answer_;
  llm::Stop stop_ = llm::Stop::kEnd;
  std::vector<Edit> edits_;  // of the last answer
};

std::vector<Proposed> AskSequentially(const std::vector<Slot>& slots, llm::Asker& model,
                                      const ProposingOptions& options, const ProposingWork& work,
                                      FaultDesk& desk, std::atomic<int>& done) {
  Dialogue dialogue(model, options, work, desk);
  std::vector<Proposed> all;
  std::vector<std::string> siblings;
  for (const Slot& slot : slots) {
    all.push_back(all.empty()
                      ? dialogue.Propose(slot)
                      : dialogue.ProposeAnother(slot, static_cast<int>(slots.size()), siblings));
    ++done;
    if (!all.back().error.message.empty()) break;  // the conversation cannot continue
    siblings.push_back(all.back().kernels.empty() ? "" : all.back().kernels.back().name);
  }
  while (all.size() < slots.size()) all.push_back(all.back());
  desk.Wake();
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
                                              const ProposingWork& work) {
  std::atomic<int> done = 0;
  FaultDesk desk;
  std::vector<std::future<std::vector<Proposed>>> parts;
  if (options.sequential && !slots.empty()) {
    parts.push_back(std::async(std::launch::async, [&] {
      return AskSequentially(slots, *models[slots.front().model], options, work, desk, done);
    }));
  } else {
    for (const Slot& slot : slots) {
      parts.push_back(std::async(std::launch::async, [&] {
        return AskSequentially({slot}, *models[slot.model], options, work, desk, done);
      }));
    }
  }
  Status failed;
  const auto find = [&](const std::string& source) -> Result<std::string> {
    auto fault = failed ? work.find_fault(source) : tl::unexpected(failed.error());
    if (failed && !fault) failed = tl::unexpected(fault.error());
    return fault;
  };
  std::vector<Proposed> all;
  for (auto& part : parts) {
    while (part.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      desk.Serve(find, kShowEvery);
      work.show(done);
    }
    for (Proposed& proposed : part.get()) all.push_back(std::move(proposed));
  }
  TRY(failed);
  if (options.stop.stop_requested()) return Fail(ErrorCode::kCancelled, "interrupted");
  return all;
}

}  // namespace cupel::evolve
