// SPDX-License-Identifier: Apache-2.0
#include "judge/rounding_direction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace cupel::judge {
namespace {

constexpr int64_t kFewestRounded = 256;  // elements in one direction
constexpr int kFewestInputs = 2;
constexpr double kOneDirection = 0.95;
constexpr double kBeyondHalf = 0.25;  // truncation leaves half of the elements there
constexpr double kBeyondOne = 0.05;
constexpr int64_t kFewestFlushed = 64;
constexpr double kFlushed = 0.99;
constexpr double kLeastRight = 0.9;

/// Of approximations: the shares of the unit roundoff and of the number from which a bias counts.
constexpr double kBiasUnits = 0.2;
constexpr double kLeastBias = 1e-4;
constexpr int kFewestBiased = 10;
/// Of the mean. With so few inputs, a correct kernel whose calls share a rounded factor exceeds it
/// once in 10^5 verdicts.
constexpr double kBiasDeviations = 10;

double ShareOf(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// One output over the trials of all settings.
class OutputRounding {
 public:
  void Add(size_t setting, const records::RoundedResults& r, bool is_reset) {
    if (r.is_empty()) return;
    all_.roundoff = r.roundoff;
    all_.AddCounts(r);
    inputs_ += r.count > 0;
    if (settings_.empty() || settings_.back() != setting) settings_.push_back(setting);
    if (!is_reset || r.count < kFewestRounded / 4) return;
    ++biased_;
    bias_ += r.bias;
    bias_squares_ += r.bias * r.bias;
  }

  const std::vector<size_t>& settings() const { return settings_; }

  /// What is wrong, or an empty string.
  std::string Problem() const {
    if (std::string direction = OneDirection(); !direction.empty()) return direction;
    // An approximation of low accuracy near zero is wrong for the smallest normal numbers, too.
    if (all_.subnormal >= kFewestFlushed && ShareOf(all_.flushed, all_.subnormal) >= kFlushed &&
        all_.least_normal >= kFewestFlushed &&
        ShareOf(all_.least_right, all_.least_normal) >= kLeastRight) {
      return fmt::format(
          "{} of {} results below float16's smallest normal number (6.1e-5) are zero; PyTorch "
          "keeps such numbers",
          all_.flushed, all_.subnormal);
    }
    return Bias();
  }

 private:
  std::string OneDirection() const {
    if (all_.count < kFewestRounded || inputs_ < kFewestInputs) return "";
    if (ShareOf(all_.beyond_half, all_.count) < kBeyondHalf) return "";
    if (ShareOf(all_.beyond_one, all_.count) > kBeyondOne) return "";
    const struct {
      int64_t elements;
      const char* direction;
    } directions[] = {{all_.count - all_.outward, "toward zero"},
                      {all_.outward, "away from zero"},
                      {all_.above, "up"},
                      {all_.count - all_.above, "down"}};
    const auto& most =
        *std::max_element(std::begin(directions), std::end(directions),
                          [](const auto& a, const auto& b) { return a.elements < b.elements; });
    if (ShareOf(most.elements, all_.count) < kOneDirection) return "";
    return fmt::format(
        "{:.3g} % of {} results that had to be rounded are rounded {}, and PyTorch "
        "rounds to the nearest",
        100 * ShareOf(most.elements, all_.count), all_.count, most.direction);
  }

  /// Only results whose equality in exact arithmetic is not established. They may have been
  /// computed by an approximation.
  std::string Bias() const {
    if (biased_ < kFewestBiased) return "";
    const double mean = bias_ / biased_;
    const double variance = std::fmax(0, bias_squares_ / biased_ - mean * mean);
    const double deviation = std::sqrt(variance / (biased_ - 1));  // of the mean
    const double least = std::fmax(kLeastBias, kBiasUnits * all_.roundoff);
    if (std::fabs(mean) < std::fmax(least, kBiasDeviations * deviation)) return "";
    return fmt::format(
        "the results are {:.2g} % too {} on average over {} inputs, and rounding "
        "has no such bias",
        100 * std::fabs(mean), mean > 0 ? "large" : "small", biased_);
  }

  records::RoundedResults all_;
  std::vector<size_t> settings_;
  int inputs_ = 0, biased_ = 0;
  double bias_ = 0, bias_squares_ = 0;
};

}  // namespace

std::optional<RoundingProblem> FindRoundingProblem(
    const std::vector<records::SettingReport>& settings) {
  std::vector<OutputRounding> outputs;
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto& followed = settings[i].established.outputs;
    for (const records::TrialReport& trial : settings[i].trials) {
      if (!trial.ok || !trial.is_usual()) continue;
      if (outputs.size() < trial.outputs.size()) outputs.resize(trial.outputs.size());
      for (size_t o = 0; o < trial.outputs.size(); ++o) {
        const bool is_reset = o < followed.size() && 2 * followed[o].reset > followed[o].elements;
        outputs[o].Add(i, trial.outputs[o].rounding, is_reset);
      }
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    std::string problem = outputs[o].Problem();
    if (!problem.empty()) return RoundingProblem{o, outputs[o].settings(), std::move(problem)};
  }
  return std::nullopt;
}

}  // namespace cupel::judge
