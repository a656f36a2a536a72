// SPDX-License-Identifier: Apache-2.0
#include "review/review.h"

namespace cupel::review {
namespace {

/// Weight of an objection whose quoted line is not in the source.
constexpr double kMisquoted = 0.5;
/// An objection with less confidence deserves a second look.
constexpr double kSure = 0.8;

/// The stated probability that the kernel is fine.
double FineShare(const Opinion& opinion) {
  return opinion.fine ? 0.5 + opinion.confidence / 2 : 0.5 - opinion.confidence / 2;
}

}  // namespace

const char* Name(Aspect aspect) {
  switch (aspect) {
    case Aspect::kCompile:
      return "compile";
    case Aspect::kMemory:
      return "memory";
    case Aspect::kNumerics:
      return "numerics";
  }
  return "numerics";
}

bool Disagree(const std::vector<Opinion>& opinions) {
  for (const Opinion& one : opinions) {
    if (!one.usable) continue;
    if (!one.fine && (one.confidence < kSure || one.misquotes())) return true;
    for (const Opinion& other : opinions) {
      if (other.usable && other.aspect == one.aspect && other.fine != one.fine) return true;
    }
  }
  return false;
}

void Count(Review& review, const ReviewOptions& options) {
  double sum = 0, weights = 0;
  for (const Opinion& opinion : review.opinions) {
    if (!opinion.usable) continue;
    double weight = opinion.misquotes() ? kMisquoted : 1;
    if (options.weighted) weight *= options.weights[static_cast<size_t>(opinion.aspect)];
    sum += weight * (options.weighted ? FineShare(opinion) : opinion.fine ? 1 : 0);
    weights += weight;
  }
  // Accept ties despite rounding.
  constexpr double kRounding = 1e-9;
  review.score = weights > 0 ? sum / weights : 0.5;
  review.passed = weights == 0 || review.score >= options.threshold - kRounding;
}

Json ToJson(const Opinion& opinion) {
  Json json{{"aspect", Name(opinion.aspect)}, {"model", opinion.model}, {"usable", opinion.usable}};
  if (opinion.usable) {
    json["fine"] = opinion.fine;
    json["confidence"] = opinion.confidence;
    json["line"] = opinion.line;
    json["line_number"] = opinion.line_number;
  }
  json["reason"] = opinion.reason;
  json["exchange"] = opinion.exchange;
  if (opinion.first_fine) {
    json["first"] = {{"fine", *opinion.first_fine}, {"confidence", opinion.first_confidence}};
  }
  json["usd"] = opinion.usd;
  json["input_tokens"] = opinion.input_tokens;
  json["output_tokens"] = opinion.output_tokens;
  return json;
}

Json ToJson(const Review& review) {
  Json opinions = Json::array();
  for (const Opinion& opinion : review.opinions) opinions.push_back(ToJson(opinion));
  return {{"passed", review.passed},
          {"score", review.score},
          {"opinions", std::move(opinions)},
          {"usd", review.usd},
          {"seconds", review.seconds}};
}

}  // namespace cupel::review
