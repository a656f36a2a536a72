// SPDX-License-Identifier: Apache-2.0
#include "task/explored.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "task/sizes.h"

namespace cupel::task {
namespace {

/// Small primes, powers of two and their neighbours, multiples of 2 to 64 that are no power of two,
/// and widths of models.
constexpr int64_t kNumbers[] = {
    1,    2,     3,     5,     7,     8,     12,    15,    16,    17,     20,    31,   32,
    33,   40,    48,    63,    64,    65,    72,    96,    100,   127,    128,   129,  160,
    192,  255,   256,   257,   264,   320,   511,   512,   513,   544,    768,   1000, 1023,
    1024, 1025,  1088,  1536,  2047,  2048,  2049,  2880,  3584,  4096,   4099,  5120, 8192,
    8200, 11008, 14336, 16384, 18944, 32000, 50257, 65535, 65536, 151936, 262144};
constexpr int64_t kWidths[] = {1,     1536,  2880,  3584,  5120,   11008, 14336,
                               18944, 32000, 50257, 65536, 151936, 262144};
/// Other sizes while one varies, if their product is large.
struct Others {
  int64_t rows, features;
  double work;  // their product
};
constexpr Others kFew{5, 256, 1 << 13}, kHardlyAny{5, 8, 8};
/// Beyond indices of 16 bits, with hardly anything else.
constexpr int64_t kVeryWide = (1 << 16) + 1;
constexpr double kSmallWork = 1 << 24;  // of the product of all sizes, to be small
constexpr size_t kMostVariants = 3;     // settings that differ in more than sizes
constexpr int64_t kLargestKeyword = INT32_MAX;
/// Of settings in which several sizes differ: remainders that count, numbers, and numbers compared.
constexpr int64_t kDivisors = 32, kLargestJoint = 160;
constexpr double kJointWork = 1 << 18;
constexpr int kJointTries = 24;
constexpr double kManyElements[] = {0x1p31, 0x1p32};

Numbers SizesOf(const Setting& setting) {
  Numbers sizes = RowsOf(setting);
  for (Number& feature : FeaturesOf(setting)) sizes.push_back(std::move(feature));
  return sizes;
}

/// What is left of a setting without its sizes: its dtypes and flags. Floats such as eps are left
/// out.
std::string VariantOf(const Setting& setting) {
  std::string text;
  for (const Json* arguments : {&setting.init, &setting.inputs}) {
    for (const auto& [key, value] : arguments->items()) {
      if (!value.is_number()) text += key + DumpJson(value) + ";";
    }
  }
  return text;
}

/// The settings of which each has other dtypes or flags.
std::vector<const Setting*> Variants(const std::vector<Setting>& listed) {
  std::vector<const Setting*> variants;
  std::set<std::string> known;
  for (const Setting& setting : listed) {
    if (variants.size() == kMostVariants) break;
    if (setting.derived.empty() && known.insert(VariantOf(setting)).second) {
      variants.push_back(&setting);
    }
  }
  return variants;
}

double WorkOf(const Setting& setting) {
  double product = 1;
  for (const auto& [key, number] : SizesOf(setting)) product *= static_cast<double>(number);
  return product;
}

/// Sets a number and says so in `derived`.
void Vary(Setting& setting, const std::string& key, int64_t number) {
  if (NumberAt(setting, key) == number) return;
  SetNumber(setting, key, number);
  setting.derived += fmt::format("{}{}={}", setting.derived.empty() ? "" : " ", key, number);
}

/// The sizes of a setting that differ from those of `listed`: "rows=7 features=33".
std::string DifferenceOf(const Setting& setting, const Setting& listed) {
  std::string text;
  for (const auto& [key, listed_number] : SizesOf(listed)) {
    const int64_t number = NumberAt(setting, key).value_or(listed_number);
    if (number == listed_number) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, number);
  }
  return text;
}

ExploredSize Begin(const Setting& listed, const std::string& key) {
  ExploredSize size{listed, key, 0, false};
  size.setting.kind = SettingKind::kHeldout;
  size.setting.derived.clear();
  size.setting.reduced.clear();
  return size;
}

/// The largest of `numbers` that is more than `most`, without `key`; null if there is none.
const Number* LargestOf(const Numbers& numbers, const std::string& key, int64_t most) {
  const Number* largest = nullptr;
  for (const Number& one : numbers) {
    if (one.first == key || one.second <= most) continue;
    if (largest == nullptr || one.second > largest->second) largest = &one;
  }
  return largest;
}

/// `judged` with fewer rows and features other than `key`, until their product is at most that
/// of `others`. Sizes that must agree with others (heads, groups) are usually small already, and
/// stay.
ExploredSize Few(const Setting& judged, const std::string& key, const Others& others = kFew) {
  ExploredSize size = Begin(judged, key);
  Setting& setting = size.setting;
  const auto reduce = [&](Numbers (*numbers_of)(const Setting&), int64_t most) {
    while (WorkOf(setting) /
               static_cast<double>(std::max<int64_t>(NumberAt(setting, key).value_or(1), 1)) >
           others.work) {
      const Numbers numbers = numbers_of(setting);
      const Number* largest = LargestOf(numbers, key, most);
      if (largest == nullptr) return;
      Vary(setting, largest->first, most);
    }
  };
  reduce(&RowsOf, others.rows);
  reduce(&FeaturesOf, others.features);
  return size;
}

/// Which remainders of division by 2 to kDivisors the numbers of a keyword have.
class Remainders {
 public:
  void Add(int64_t number) {
    for (int64_t divisor = 2; divisor <= kDivisors; ++divisor) {
      found_.insert({divisor, number % divisor});
    }
  }
  /// How much a number adds. Small divisors count more: more kernels depend on them.
  double Gain(int64_t number) const {
    double gain = 0;
    for (int64_t divisor = 2; divisor <= kDivisors; ++divisor) {
      const bool is_new = !found_.contains({divisor, number % divisor});
      gain += is_new ? 1.0 / static_cast<double>(divisor) : 0;
    }
    return gain;
  }

 private:
  std::set<std::pair<int64_t, int64_t>> found_;
};

/// The best of some random numbers from 1 to `most`.
int64_t DrawNumber(const Remainders& remainders, int64_t most, Random& random) {
  int64_t best = 1;
  double gain = -1;
  for (int i = 0; i < kJointTries; ++i) {
    const int64_t number = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most)));
    if (remainders.Gain(number) <= gain) continue;
    best = number;
    gain = remainders.Gain(number);
  }
  return best;
}

bool HasSame(const std::vector<ExploredSize>& sizes, const ExploredSize& one) {
  return std::any_of(sizes.begin(), sizes.end(), [&](const ExploredSize& other) {
    return other.key == one.key && other.number == one.number &&
           other.setting.init == one.setting.init && other.setting.inputs == one.setting.inputs;
  });
}

}  // namespace

ExploredSize AtNumber(const ExploredSize& size, int64_t number) {
  ExploredSize other = size;
  other.number = number;
  SetNumber(other.setting, size.key, number);
  // The varying keyword comes first.
  std::string rest = size.setting.derived;
  const std::string before = fmt::format("{}={}", size.key, size.number);
  if (size.number != 0 && rest.starts_with(before)) rest.erase(0, before.size());
  other.setting.derived = fmt::format("{}={}{}{}", size.key, number,
                                      rest.empty() || rest.starts_with(' ') ? "" : " ", rest);
  other.setting.id = other.setting.derived;
  other.is_small = WorkOf(other.setting) <= kSmallWork;
  return other;
}

std::vector<ExploredSize> ExploredSizes(const std::vector<Setting>& judged,
                                        const std::vector<Setting>& listed) {
  std::vector<ExploredSize> sizes;
  for (const Setting* variant : Variants(judged)) {
    for (const auto& [key, number] : SizesOf(*variant)) {
      const ExploredSize few = Few(*variant, key);
      for (const int64_t one : kNumbers) sizes.push_back(AtNumber(few, one));
      const ExploredSize hardly_any = Few(*variant, key, kHardlyAny);
      // The smaller one is where a search for the number from which launches fail begins.
      for (const int64_t one : {int64_t{1024}, kVeryWide}) {
        ExploredSize size = AtNumber(hardly_any, one);
        if (!HasSame(sizes, size)) sizes.push_back(std::move(size));
      }
    }
  }
  for (const Setting* variant : Variants(listed)) {
    for (const auto& [key, number] : SizesOf(*variant)) {
      const ExploredSize wide = Begin(*variant, key);
      for (const int64_t one : kWidths) {
        ExploredSize size = AtNumber(wide, one);
        if (!HasSame(sizes, size)) sizes.push_back(std::move(size));
      }
    }
  }
  return sizes;
}

std::vector<ExploredSize> JointSizes(const std::vector<Setting>& judged,
                                     const std::vector<Setting>& known, size_t count,
                                     Random random) {
  std::vector<ExploredSize> sizes;
  std::map<std::string, Remainders> remainders;
  for (const Setting& setting : known) {
    for (const auto& [key, number] : SizesOf(setting)) remainders[key].Add(number);
  }
  const std::vector<const Setting*> variants = Variants(judged);
  if (variants.empty()) return sizes;
  for (size_t i = 0; i < count; ++i) {
    const Setting& listed = *variants[random.Below(variants.size())];
    Numbers keys = SizesOf(listed);
    if (keys.size() < 2) return sizes;
    const auto most = static_cast<int64_t>(std::clamp(
        std::pow(kJointWork, 1.0 / static_cast<double>(keys.size())), 2.0, double{kLargestJoint}));
    // Sizes that must agree with others stay in every other setting.
    random.Shuffle(keys);
    if (i % 2 == 1) keys.resize(1 + random.Below(keys.size() - 1));
    ExploredSize size = Few(listed, keys.front().first);
    size.key.clear();
    size.is_small = true;
    for (const auto& [key, number] : keys) {
      SetNumber(size.setting, key, DrawNumber(remainders[key], most, random));
    }
    for (const auto& [key, number] : SizesOf(listed)) {
      remainders[key].Add(NumberAt(size.setting, key).value_or(number));
    }
    size.setting.derived = DifferenceOf(size.setting, listed);
    size.setting.id = size.setting.derived;
    if (!size.setting.derived.empty()) sizes.push_back(std::move(size));
  }
  return sizes;
}

std::vector<ExploredSize> OtherOptions(const std::vector<Setting>& judged) {
  std::vector<ExploredSize> options;
  std::map<std::string, std::set<int64_t>> known;
  for (const Setting& setting : judged) {
    for (const auto& [key, number] : OptionsOf(setting)) known[key].insert(number);
  }
  const std::vector<const Setting*> variants = Variants(judged);
  if (variants.empty()) return options;
  for (const auto& [key, number] : OptionsOf(*variants.front())) {
    ExploredSize base = Few(*variants.front(), key);
    base.is_small = true;
    std::vector<ExploredSize> others;
    for (const int64_t other : {number + 1, number > 1 ? number - 1 : number + 2}) {
      if (known[key].contains(other)) continue;
      others.push_back(AtNumber(base, other));
      others.back().is_small = true;
    }
    if (others.empty()) continue;
    options.push_back(std::move(base));
    std::ranges::move(others, std::back_inserter(options));
  }
  return options;
}

std::vector<ExploredSize> LargeSizes(const Setting& listed, int64_t elements) {
  std::vector<ExploredSize> sizes;
  if (elements < 1) return sizes;
  for (const auto& [key, number] : SizesOf(listed)) {
    const ExploredSize begin = Begin(listed, key);
    for (const double many : kManyElements) {
      const double wanted = many / static_cast<double>(elements) * static_cast<double>(number) + 1;
      if (wanted <= static_cast<double>(number) || wanted > static_cast<double>(kLargestKeyword)) {
        continue;
      }
      sizes.push_back(AtNumber(begin, static_cast<int64_t>(wanted)));
      sizes.back().is_small = false;
    }
  }
  return sizes;
}

}  // namespace cupel::task
