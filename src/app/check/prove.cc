// SPDX-License-Identifier: Apache-2.0
#include "app/check/prove.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "app/candidate.h"
#include "app/session.h"
#include "task/task.h"

namespace cupel::app {
namespace {

Json OutputJson(const assay::OutputProof& output) {
  Json json{{"name", output.name},
            {"elements", output.count},
            {"proved", output.proved},
            {"differing", output.differing},
            {"unfollowed", output.unfollowed},
            {"unexplained", output.unexplained},
            {"reasons", output.reasons}};
  if (output.differing > 0) {
    json["first"] = {{"index", output.first},
                     {"value", output.value},
                     {"exact", output.shadow},
                     {"expected", output.truth}};
  }
  return json;
}

}  // namespace

assay::ProofOutcome ProofReport::outcome() const {
  using Outcome = assay::ProofOutcome;
  const auto is = [](Outcome outcome) {
    return [outcome](const assay::Proof& proof) { return proof.outcome == outcome; };
  };
  if (std::any_of(proofs.begin(), proofs.end(), is(Outcome::kDiffers))) return Outcome::kDiffers;
  // On heavy inputs, a kernel need not be proved, but it must run.
  bool has_usual = false;
  for (const assay::Proof& proof : proofs) {
    const bool usual = proof.inputs == task::Distribution::kUsual;
    has_usual |= usual;
    if (proof.broken || (usual && proof.outcome != Outcome::kProved)) return Outcome::kNotProved;
  }
  return has_usual ? Outcome::kProved : Outcome::kNotProved;
}

Result<ProofReport> Prove(const ProveOptions& options, Events& events) {
  TRY_ASSIGN(const std::optional<int> gpu, GpuOf(options.common));
  if (gpu) {
    return Fail(ErrorCode::kInvalidArgument, "a GPU computes in no finite field",
                "leave --device out");
  }
  TRY_ASSIGN(const task::Task task, LoadTarget(options.target, options.common));
  TRY_ASSIGN(auto session, Session::Create(options.common, options.compile, events));
  events.Show(Progress{"building"});
  TRY_ASSIGN(const assay::Candidate candidate,
             BuildCandidate(options.kernel, options.common, options.compile, events));
  ReportNotes(candidate, events);
  const assay::Question question = QuestionOf(task, options.target, options.common);
  TRY_ASSIGN(const auto settings, assay::SomeChosen(question));
  ProofReport report;
  report.kernel = options.kernel.string();
  report.task = task.name;
  report.direction = task::Name(question.direction);
  const bool is_built = !std::holds_alternative<build::BuildFailure>(candidate.built);
  for (const task::Setting* setting : settings) {
    for (const auto inputs : {task::Distribution::kUsual, task::Distribution::kHeavy}) {
      TRY_ASSIGN(auto proof, assay::Prove(session->parts(), candidate, question, *setting, inputs,
                                          inputs == task::Distribution::kUsual));
      if (!proof.inapplicable) report.proofs.push_back(std::move(proof));
      if (!is_built) return report;
    }
  }
  return report;
}

Json ToJson(const ProofReport& report) {
  Json settings = Json::array();
  for (const assay::Proof& proof : report.proofs) {
    Json outputs = Json::array();
    for (const assay::OutputProof& output : proof.outputs) outputs.push_back(OutputJson(output));
    settings.push_back({{"id", proof.setting},
                        {"sizes", proof.sizes},
                        {"inputs", task::Name(proof.inputs)},
                        {"outcome", assay::Name(proof.outcome)},
                        {"reason", proof.reason},
                        {"beyond_tolerance", proof.beyond_tolerance},
                        {"fields", proof.fields},
                        {"has_roots", proof.has_roots},
                        {"any_order", proof.any_order},
                        {"removable_barriers", proof.removable_barriers},
                        {"varying_decisions", proof.varying_decisions},
                        {"fixed_decisions", proof.fixed_decisions},
                        {"outputs", std::move(outputs)},
                        {"seconds", proof.seconds},
                        {"shadow_seconds", proof.shadow_seconds},
                        {"field_seconds", proof.field_seconds}});
  }
  return {{"schema", "cupel.proof/1"},
          {"kernel", report.kernel},
          {"task", report.task},
          {"direction", report.direction},
          {"outcome", assay::Name(report.outcome())},
          {"settings", std::move(settings)}};
}

}  // namespace cupel::app
