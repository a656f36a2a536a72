// How a wrong output relates to the truth: scaled, offset, a function, transposed, shifted,
// permuted.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/random.h"
#include "judge/explain.h"

namespace cupel::judge {
namespace {

constexpr int64_t kEnoughWrong = 8;  // with fewer wrong elements, any hypothesis fits
using Found = std::optional<Explanation>;

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr double kNearOne = 5e-4;

/// False if the truth is (nearly) one number: then a factor cannot be distinguished from an offset.
bool TruthVaries(const Evidence& e) {
  const double variance = e.truth_rms * e.truth_rms - e.truth_mean * e.truth_mean;
  return variance > 1e-6 * e.truth_rms * e.truth_rms;
}

/// Fits only the wrong elements: "the wrong ones are 2 times the expected value".
template <typename Predict>
bool FitsWrong(const Evidence& e, double slack, Predict predict) {
  return Fits(e, slack, [&](int64_t i) -> std::optional<double> {
    return e.scan->IsWrong(i) ? predict(i) : e.scan->got(i);
  });
}

std::string Subject(const Evidence& e, bool everywhere) {
  if (everywhere || e.wrong == e.count) return "the whole output is";
  const auto place = FindPlace(e);
  return place ? place->text + "; all wrong ones are" : "all of them are";
}

Found Factor(const Evidence& e) {
  if (!TruthVaries(e)) return {};
  const Scanner& s = *e.scan;
  std::vector<double> ratios;
  for (int64_t i : e.some_wrong) {
    const double wanted = s.wanted(i), got = s.got(i);
    if (std::isfinite(got) && std::fabs(wanted) > 0.1 * e.truth_rms) ratios.push_back(got / wanted);
  }
  if (ratios.size() < kEnoughWrong) return {};
  const double factor = Median(ratios);
  // "1 times the expected value" explains nothing.
  if (std::fabs(factor) < 1e-9 || std::fabs(factor - 1) < kNearOne) return {};
  const auto scaled = [&](int64_t i) -> std::optional<double> { return factor * s.wanted(i); };
  const bool everywhere = Fits(e, std::fabs(factor), scaled);
  if (!everywhere && !FitsWrong(e, std::fabs(factor), scaled)) return {};
  if (std::fabs(factor + 1) < 1e-4) {
    const std::string subject = everywhere ? "the whole output has" : "all of them have";
    return Explanation{"sign_flipped", subject + " the sign flipped"};
  }
  return Explanation{
      "factor", fmt::format("{} {}", Subject(e, everywhere), DescribeMultiple(factor, e.axes))};
}

Found Offset(const Evidence& e) {
  if (!TruthVaries(e)) return {};
  const Scanner& s = *e.scan;
  std::vector<double> differences;
  for (int64_t i : e.some_wrong) {
    const double d = s.got(i) - s.wanted(i);
    if (std::isfinite(d)) differences.push_back(d);
  }
  if (differences.size() < kEnoughWrong) return {};
  const double offset = Median(differences);
  const auto moved = [&](int64_t i) -> std::optional<double> { return s.wanted(i) + offset; };
  const bool everywhere = Fits(e, 1, moved);
  if (!everywhere && !FitsWrong(e, 1, moved)) return {};
  return Explanation{"offset",
                     fmt::format("{} off by the constant {:+.6g}", Subject(e, everywhere), offset)};
}

Found Function(const Evidence& e) {
  struct Named {
    const char* text;
    double (*f)(double);
  };
  static constexpr std::array<Named, 6> kFunctions = {{
      {"the square of the expected value: probably a missing square root",
       [](double x) { return x * x; }},
      {"the square root of the expected value", [](double x) { return std::sqrt(x); }},
      {"the reciprocal of the expected value", [](double x) { return 1 / x; }},
      {"the exponential of the expected value: probably a missing logarithm",
       [](double x) { return std::exp(x); }},
      {"the logarithm of the expected value", [](double x) { return std::log(x); }},
      {"the absolute value of the expected value", [](double x) { return std::fabs(x); }},
  }};
  if (e.wrong < kEnoughWrong || !TruthVaries(e)) return {};
  for (const Named& named : kFunctions) {
    if (Fits(e, 1,
             [&](int64_t i) -> std::optional<double> { return named.f(e.scan->wanted(i)); })) {
      return Explanation{"function", std::string("the output is ") + named.text};
    }
  }
  return {};
}

Found MissingRelu(const Evidence& e) {
  if (e.wrong < kEnoughWrong || e.truth_min < 0 || e.got_min >= 0) return {};
  for (int64_t i : e.some_wrong) {
    if (!(e.scan->got(i) < 0)) return {};
  }
  const auto clamped = [&](int64_t i) -> std::optional<double> {
    return e.scan->got(i) < 0 && e.scan->wanted(i) == 0 ? e.scan->got(i) : e.scan->wanted(i);
  };
  if (!Fits(e, 1, clamped)) return {};
  return Explanation{"missing_relu",
                     "elements that should be zero are negative, the rest is correct: probably a "
                     "missing max(0, x)"};
}

std::string EachSlice(const Evidence& e, size_t axis) {
  if (e.axes.size() == 2) return axis == 0 ? "each row" : "each column";
  return fmt::format("each index of axis {}", axis);
}

/// Each slice of an axis is off by its own number: added (a bias) or multiplied (a weight, a
/// normalisation).
Found AlongAxis(const Evidence& e, size_t a) {
  const Axis& axis = e.axes[a];
  const int64_t others = e.count / axis.length;
  if (axis.wrong.empty() || axis.length < 2 || others < 4) return {};
  const auto slices = static_cast<size_t>(axis.length);
  const auto touched =
      std::count_if(axis.wrong.begin(), axis.wrong.end(), [](int64_t n) { return n > 0; });
  if (touched < 4 && touched < axis.length) return {};
  std::vector<double> sum(slices), cross(slices), squares(slices);
  for (int64_t i = 0; i < e.count; ++i) {
    const auto slice = static_cast<size_t>(axis.SliceOf(i));
    const double g = e.scan->got(i), w = e.scan->wanted(i);
    sum[slice] += g - w;
    cross[slice] += g * w;
    squares[slice] += w * w;
  }
  const auto slice_of = [&](int64_t i) { return static_cast<size_t>(axis.SliceOf(i)); };
  if (Fits(e, 1, [&](int64_t i) -> std::optional<double> {
        return e.scan->wanted(i) + sum[slice_of(i)] / static_cast<double>(others);
      })) {
    return Explanation{
        "axis_offset",
        fmt::format("{} is off by its own constant: probably a bias that is missing or "
                    "indexed wrongly",
                    EachSlice(e, a))};
  }
  if (Fits(e, 2, [&](int64_t i) -> std::optional<double> {
        const size_t slice = slice_of(i);
        return squares[slice] == 0 ? 0 : e.scan->wanted(i) * cross[slice] / squares[slice];
      })) {
    return Explanation{
        "axis_factor",
        fmt::format("{} is off by its own factor: probably a scale or normalisation that "
                    "is missing or indexed wrongly",
                    EachSlice(e, a))};
  }
  return {};
}

/// The output's memory contains axes [first, split) after [split, rank): a transposition.
Found Transposed(const Evidence& e) {
  const size_t rank = e.axes.size();
  for (size_t first = 0; first + 1 < rank; ++first) {
    for (size_t split = first + 1; split < rank; ++split) {
      const int64_t inner = e.axes[split - 1].inner;  // elements of [split, rank)
      const int64_t outer = e.axes[first].inner * e.axes[first].length / inner;
      if (outer < 2 || inner < 2) continue;
      const auto moved = [&](int64_t i) -> std::optional<double> {
        const int64_t block = i / (outer * inner) * (outer * inner), at = i - block;
        return e.scan->wanted(block + at % outer * inner + at / outer);
      };
      if (!Fits(e, 1, moved)) continue;
      if (rank == 2) return Explanation{"transposed", "the output is transposed"};
      return Explanation{
          "transposed",
          fmt::format("the output is laid out with axes {} and {} exchanged (the axes "
                      "from {} on come first)",
                      split - 1, split, split)};
    }
  }
  return {};
}

Found Shifted(const Evidence& e) {
  const int64_t row = e.row_length();
  for (int64_t shift : {int64_t{1}, int64_t{-1}, row, -row}) {
    const auto moved = [&](int64_t i) -> std::optional<double> {
      const int64_t from = i - shift;
      if (from < 0 || from >= e.count) return std::nullopt;
      return e.scan->wanted(from);
    };
    if (e.count <= 2 * row && std::abs(shift) == row && row > 1) continue;
    if (!Fits(e, 1, moved)) continue;
    const bool rows = std::abs(shift) == row && row > 1;
    return Explanation{"shifted",
                       fmt::format("the output is shifted by one {} towards the {}",
                                   rows ? "row" : "element", shift > 0 ? "end" : "start")};
  }
  return {};
}

Found Repeated(const Evidence& e) {
  const int64_t row = e.row_length(), rows = e.count / std::max<int64_t>(1, row);
  if (rows < 2 || row < 2) return {};
  for (int64_t source : {int64_t{0}, rows - 1}) {
    if (Fits(e, 1, [&](int64_t i) -> std::optional<double> {
          return e.scan->wanted(source * row + i % row);
        })) {
      return Explanation{"repeated_row",
                         fmt::format("every row contains the values of row {}", source)};
    }
  }
  if (Fits(e, 1,
           [&](int64_t i) -> std::optional<double> { return e.scan->wanted(i / row * row); })) {
    return Explanation{"repeated_column", "every row repeats its first element"};
  }
  return {};
}

/// Rows of the output are other rows of the truth, found by random projections.
Found PermutedRows(const Evidence& e) {
  const int64_t row = e.row_length(), rows = e.count / std::max<int64_t>(1, row);
  if (rows < 3 || row < 2 || rows > (1 << 20) || e.pairs != e.count) return {};
  Random random(1);
  std::vector<double> weights(static_cast<size_t>(row));
  for (double& w : weights) w = 2 * random.Unit() - 1;
  std::vector<double> got(static_cast<size_t>(rows)), truth(static_cast<size_t>(rows));
  for (int64_t i = 0; i < e.count; ++i) {
    const auto r = static_cast<size_t>(i / row);
    got[r] += weights[static_cast<size_t>(i % row)] * e.scan->got(i);
    truth[r] += weights[static_cast<size_t>(i % row)] * e.scan->wanted(i);
  }
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return truth[static_cast<size_t>(a)] < truth[static_cast<size_t>(b)];
  });
  std::vector<int64_t> source(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const double key = got[static_cast<size_t>(r)];
    auto at = std::lower_bound(order.begin(), order.end(), key, [&](int64_t a, double k) {
      return truth[static_cast<size_t>(a)] < k;
    });
    if (at == order.end()) --at;
    if (at != order.begin() && std::fabs(truth[static_cast<size_t>(*(at - 1))] - key) <
                                   std::fabs(truth[static_cast<size_t>(*at)] - key)) {
      --at;
    }
    source[static_cast<size_t>(r)] = *at;
  }
  if (!Fits(e, 1, [&](int64_t i) -> std::optional<double> {
        return e.scan->wanted(source[static_cast<size_t>(i / row)] * row + i % row);
      })) {
    return {};
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (source[static_cast<size_t>(r)] == r) continue;
    return Explanation{"permuted_rows",
                       fmt::format("rows are in wrong places: row {} contains the values of row {}",
                                   r, source[static_cast<size_t>(r)])};
  }
  return {};
}

}  // namespace

Found ExplainExtraRelu(const Evidence& e) {
  if (e.wrong != e.wrong_zero || e.truth_min >= 0 || e.got_min < 0 || e.wrong < kEnoughWrong)
    return {};
  if (e.wrong * 100 > e.count * 99) return {};
  if (!Fits(e, 1,
            [&](int64_t i) -> std::optional<double> { return std::fmax(0, e.scan->wanted(i)); })) {
    return {};
  }
  return Explanation{"extra_relu",
                     "elements that should be negative are zero, the rest is correct: probably an "
                     "extra max(0, x)"};
}

Found ExplainByValue(const Evidence& e) {
  if (e.wrong < 2) return {};
  if (auto found = Factor(e)) return found;
  if (auto found = Offset(e)) return found;
  if (auto found = MissingRelu(e)) return found;
  if (e.wrong < kEnoughWrong && e.wrong * 2 < e.count) return {};
  if (auto found = Function(e)) return found;
  if (auto found = Transposed(e)) return found;
  if (auto found = Repeated(e)) return found;
  if (auto found = Shifted(e)) return found;
  if (auto found = PermutedRows(e)) return found;
  for (size_t a = e.axes.size(); a-- > 0;) {
    if (auto found = AlongAxis(e, a)) return found;
  }
  return {};
}

std::string DescribeMultiple(double factor, const std::vector<Axis>& axes) {
  const auto near = [&](double value) {
    return std::fabs(factor - value) <= 1e-4 * std::fabs(value);
  };
  for (size_t a = 0; a < axes.size(); ++a) {
    const auto n = static_cast<double>(axes[a].length);
    if (n < 3) continue;
    const auto by_length = [&](const char* before, const char* after) {
      return fmt::format("{}{}{} the expected value ({} is the length of axis {})", before,
                         axes[a].length, after, axes[a].length, a);
    };
    if (near(n)) return by_length("", " times");
    if (near(1 / n)) return by_length("1/", " of");
    if (near(std::sqrt(n))) return by_length("sqrt(", ") times");
    if (near(1 / std::sqrt(n))) return by_length("1/sqrt(", ") of");
  }
  const auto named = [&]() -> std::string {
    const double size = std::fabs(factor);
    if (size > 1.5 && near(std::round(factor))) return fmt::format("{:.0f} times", factor);
    if (size < 0.75 && std::fabs(1 / factor - std::round(1 / factor)) <= 1e-4 / size) {
      return fmt::format("1/{:.0f} of", 1 / factor);
    }
    if (near(1.4426950408889634)) return "log2(e) times";
    if (near(0.6931471805599453)) return "ln(2) times";
    return fmt::format("{:.6g} times", factor);
  };
  return named() + " the expected value";
}

}  // namespace cupel::judge
