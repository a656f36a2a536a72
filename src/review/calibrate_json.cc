// SPDX-License-Identifier: Apache-2.0
#include "review/calibrate.h"

namespace cupel::review {
namespace {

Json ToJson(const VerifierRates& verifier, bool reflected) {
  Json json{{"aspect", Name(verifier.aspect)},
            {"model", verifier.model},
            {"instructions", verifier.variant}};
  json.update(ToJson(verifier.rates));
  if (reflected) json["before_reflection"] = ToJson(verifier.before);
  json["unusable"] = verifier.unusable;
  json["misquoted"] = verifier.misquoted;
  json["usd"] = verifier.usd;
  json["input_tokens"] = verifier.input_tokens;
  json["output_tokens"] = verifier.output_tokens;
  return json;
}

}  // namespace

Json ToJson(const CalibrationResult& result, const std::vector<CalibrationCase>& cases) {
  const auto all = [&](const std::vector<VerifierRates>& verifiers) {
    Json list = Json::array();
    for (const VerifierRates& each : verifiers)
      list.push_back(ToJson(each, result.options.reflect));
    return list;
  };
  Json kernels = Json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    Json kernel{{"id", cases[i].label.id}, {"half", result.reports[i] ? "reports" : "tunes"}};
    kernel["wrong"] = cases[i].label.wrong ? Json(Name(*cases[i].label.wrong)) : Json();
    kernel.update(ToJson(result.reviews[i]));
    kernel.erase("seconds");
    kernels.push_back(std::move(kernel));
  }
  return {{"options", ToJson(result.options)},
          {"reporting_half",
           {{"kernels", result.reported_on},
            {"verifiers", all(result.verifiers)},
            {"vote", ToJson(result.vote)},
            {"untuned_majority", ToJson(result.majority)}}},
          {"tuning_half",
           {{"kernels", result.tuned_on},
            {"verifiers", all(result.tuning)},
            {"vote", ToJson(result.vote_tuning)}}},
          {"usd", result.usd},
          {"kernels", std::move(kernels)}};
}

}  // namespace cupel::review
