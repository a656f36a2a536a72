// SPDX-License-Identifier: Apache-2.0
#include "task/heldout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "task/sizes.h"

namespace cupel::task {
namespace {

constexpr size_t kMostDerived = 9;
constexpr double kMostGrowth = 2;      // of the product of all numbers that change
constexpr double kMostWork = 1 << 24;  // of the product of all sizes: above it, rows are halved
constexpr int64_t kFewestRows = 32;    // fewer rows are not halved
/// Numbers of features for which most threads of a block, or of a warp, have no work.
constexpr int64_t kBelowBlock = 97, kBelowWarp = 13;

bool IsPrime(int64_t number) {
  if (number < 2) return false;
  for (int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return true;
}

/// The largest odd prime up to `most`, or 0 if there is none.
int64_t OddPrimeUpTo(int64_t most) {
  while (most > 2 && !IsPrime(most)) --most;
  return most > 2 ? most : 0;
}

/// Returns `rows`, halving the largest until the product of all sizes is at most kMostWork. Derived
/// sizes need to be awkward, not large, and one derived setting is larger than the first anyway.
Numbers Shrunk(Numbers rows, const Numbers& features) {
  double product = 1;
  for (const Numbers* numbers : {&std::as_const(rows), &features}) {
    for (const auto& [key, number] : *numbers) product *= static_cast<double>(number);
  }
  while (product > kMostWork && !rows.empty()) {
    int64_t& largest = std::max_element(rows.begin(), rows.end(), [](auto& a, auto& b) {
                         return a.second < b.second;
                       })->second;
    if (largest < kFewestRows) break;
    largest /= 2;
    product /= 2;
  }
  return rows;
}

/// Collects settings that differ from the first setting and from each other.
class Derivation {
 public:
  explicit Derivation(const Setting& first) : first_(first) {}

  /// A number of zero in `changes` means "keep the original number".
  void Add(const Numbers& changes) {
    Setting setting = first_;
    setting.derived.clear();
    double growth = 1;
    for (const auto& [key, number] : changes) {
      const auto before = NumberAt(setting, key);
      if (number == 0 || !before || *before == number) continue;
      growth *= static_cast<double>(number) / static_cast<double>(*before);
      SetNumber(setting, key, number);
      setting.derived += fmt::format("{}{}={}", setting.derived.empty() ? "" : " ", key, number);
    }
    const bool known = std::any_of(settings_.begin(), settings_.end(), [&](const Setting& other) {
      return other.inputs == setting.inputs && other.init == setting.init;
    });
    if (setting.derived.empty() || known || growth > kMostGrowth ||
        settings_.size() >= kMostDerived) {
      return;
    }
    setting.kind = SettingKind::kHeldout;
    setting.id = fmt::format("{}-{}", Name(setting.kind), settings_.size());
    settings_.push_back(std::move(setting));
  }

  std::vector<Setting> Take() { return std::move(settings_); }

 private:
  const Setting& first_;
  std::vector<Setting> settings_;
};

template <typename Change>
Numbers All(Numbers numbers, Change change) {
  for (auto& [key, number] : numbers) number = change(number);
  return numbers;
}

}  // namespace

std::vector<Setting> DeriveHeldout(const Setting& first) {
  Derivation derivation(first);
  const Numbers rows = RowsOf(first), features = FeaturesOf(first);
  const Numbers fewer = Shrunk(rows, features);
  if (!rows.empty()) {
    const Numbers batch = {rows.front()};
    derivation.Add(All(batch, [](int64_t) { return 1; }));
    derivation.Add(All(fewer, [](int64_t n) { return OddPrimeUpTo(n * 7 / 10); }));
    derivation.Add(All({fewer.front()}, [](int64_t n) {
      return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n))) + 1;
    }));
    derivation.Add(All(batch, [](int64_t n) { return (n + std::max<int64_t>(1, n / 2)) | 1; }));
  }
  // One feature at a time, since several sizes may have to agree.
  for (const Number& feature : features) {
    Numbers changes = fewer;
    changes.emplace_back(feature.first, OddPrimeUpTo(feature.second - 1));
    if (changes.back().second > 0) derivation.Add(changes);
  }
  for (const int64_t few : {kBelowBlock, kBelowWarp}) {
    for (const Number& feature : features) {
      Numbers changes = fewer;
      changes.emplace_back(feature.first, few);
      if (feature.second >= 2 * few) derivation.Add(changes);
    }
  }
  return derivation.Take();
}

}  // namespace cupel::task
