// Tested by other_inputs_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "judge/other_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace cupel::judge {
namespace {

using task::Distribution;

constexpr size_t kMostReasons = 6;

/// The inputs as a noun, for "wrong on …".
std::string Noun(Distribution distribution) {
  switch (distribution) {
    case Distribution::kDenormals:
      return "denormal numbers";
    case Distribution::kNan:
      return "inputs with a NaN";
    case Distribution::kInfinity:
      return "inputs with an infinity";
    case Distribution::kHugeOffset:
      return "inputs whose mean is 1000 times their deviation";
    case Distribution::kLarge:
      return "large numbers (one tensor times 2^17)";
    case Distribution::kStrided:
      return "non-contiguous tensors";
    case Distribution::kShifted:
      return "tensors that begin one element after an aligned address";
    default:
      return fmt::format("{} inputs", Name(distribution));
  }
}

bool DropsNan(const records::Comparison& wrong) {
  return std::any_of(wrong.first_wrong.begin(), wrong.first_wrong.end(), [](const auto& element) {
    return std::isnan(element.wanted) && !std::isnan(element.got);
  });
}

/// What wrong numbers on these inputs say about the kernel.
std::string WrongText(Distribution distribution, const records::Comparison& wrong) {
  if (distribution == Distribution::kHugeOffset && wrong.code == "wrong_result") {
    return "loses accuracy when the mean is 1000 times the deviation";
  }
  if (distribution == Distribution::kNan && DropsNan(wrong)) return "drops NaN";
  if (distribution == Distribution::kStrided) {
    return "reads non-contiguous tensors as if they were contiguous";
  }
  return "is wrong on " + Noun(distribution);
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

records::Limit LimitOf(Distribution distribution, const Failure& failure) {
  records::Limit limit{std::string(Name(distribution)), failure.code, "", failure.message};
  if (failure.refused) {
    limit.message = "refuses " + Noun(distribution);
  } else if (failure.wrong != nullptr) {
    limit.message = WrongText(distribution, *failure.wrong);
  } else {
    limit.message = fmt::format("fails ({}) on {}", failure.code, Noun(distribution));
  }
  return limit;
}

std::vector<std::string> OtherInputsTexts(
    const std::vector<const records::OtherInputs*>& settings) {
  std::vector<std::string> texts;
  // Kinds that passed at the same number of settings share a text.
  std::vector<std::tuple<size_t, size_t, std::string>> judged;  // right, tried, kind
  std::map<std::string, std::vector<std::string>> reasons;      // why: kinds
  std::vector<std::string> order;
  for (const Distribution kind : task::OtherInputs()) {
    const std::string name(Name(kind));
    size_t right = 0, tried = 0;
    for (const records::OtherInputs* inputs : settings) {
      const auto& limits = inputs->limits;
      const bool limited =
          std::any_of(limits.begin(), limits.end(),
                      [&](const records::Limit& limit) { return limit.kind == name; });
      const bool was_tried = std::count(inputs->tried.begin(), inputs->tried.end(), name) > 0;
      tried += was_tried;
      right += was_tried && !limited;
      for (const auto& [what, why] : inputs->not_tried) {
        if (what != name) continue;
        auto& kinds = reasons[why];
        if (kinds.empty()) order.push_back(why);
        if (std::find(kinds.begin(), kinds.end(), name) == kinds.end()) kinds.push_back(name);
      }
    }
    if (right > 0) judged.emplace_back(right, tried, name);
  }
  std::map<std::pair<size_t, size_t>, std::vector<std::string>, std::greater<>> by_count;
  for (const auto& [right, tried, name] : judged) by_count[{right, tried}].push_back(name);
  const bool smaller =
      std::any_of(settings.begin(), settings.end(),
                  [](const records::OtherInputs* inputs) { return !inputs->at.empty(); });
  texts.reserve(texts.size() + by_count.size());
  for (const auto& [count, names] : by_count) {
    const auto& [right, tried] = count;
    const char* where = smaller ? " (at smaller sizes if necessary)" : "";
    const char* plural = settings.size() == 1 ? "" : "s";
    if (right == tried) {
      texts.push_back(fmt::format("correct on other inputs, tried at {} of {} setting{}{}: {}",
                                  tried, settings.size(), plural, where, Joined(names)));
    } else {  // the limits say what is wrong at the others
      texts.push_back(fmt::format("correct at {} of the {} settings where these were tried{}: {}",
                                  right, tried, where, Joined(names)));
    }
  }
  for (size_t i = 0; i < std::min(kMostReasons, order.size()); ++i) {
    texts.push_back(fmt::format("not tried: {} ({})", Joined(reasons[order[i]]), order[i]));
  }
  return texts;
}

}  // namespace cupel::judge
