// Each test changes a correct answer as a real bug would, and expects the sentence that explains
// it.
// SPDX-License-Identifier: Apache-2.0
#include "judge/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "judge/compare.h"
#include "judge/testing.h"

namespace cupel::judge {
namespace {

using testing::HasSubstr;
using Shape = std::vector<int64_t>;

struct Damaged {
  explicit Damaged(Shape dims, double mean = 0) : shape(std::move(dims)) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    Random random(11);
    for (int64_t i = 0; i < n; ++i) truth.push_back(mean + Normal(random));
  }
  Damaged& Relu() {
    for (double& t : truth) t = std::max(0.0, t);
    return *this;
  }
  /// got = f(truth, flat index)
  records::Comparison By(const std::function<double(double, int64_t)>& f) const {
    std::vector<float> got;
    for (size_t i = 0; i < truth.size(); ++i) {
      got.push_back(static_cast<float>(f(truth[i], static_cast<int64_t>(i))));
    }
    return Judge(got);
  }
  records::Comparison Judge(const std::vector<float>& got) const {
    task::Output want;
    want.shape = shape;
    want.truth = TensorOf(truth, shape, DType::kF64);
    want.error_scale = 4 * 0x1p-24 * Rms(truth);
    return Compare(TensorOf(got, shape, DType::kF32), want);
  }
  double At(int64_t i) const { return truth[static_cast<size_t>(i)]; }
  Shape shape;
  std::vector<double> truth;
};

void Expect(const records::Comparison& c, const char* pattern, const char* text) {
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.pattern, pattern) << c.message;
  EXPECT_THAT(c.message, HasSubstr(text));
}

TEST(Explain, ConstantTruthIsNotReportedAsConstantOutput) {
  Damaged d({64, 128});
  std::fill(d.truth.begin(), d.truth.end(), 75.5);
  const records::Comparison c = d.By([](double t, int64_t) { return t * 1.01; });
  EXPECT_FALSE(c.ok);
  EXPECT_NE(c.pattern, "constant") << c.message;
}

TEST(Explain, NeverWritten) {
  const Damaged d({64, 128});
  Expect(d.By([](double, int64_t) { return 0; }), "all_zero", "the whole output is zero");
  Expect(d.By([](double, int64_t) { return std::nan(""); }), "all_nan", "the whole output is NaN");
  Expect(d.By([](double, int64_t) { return -3.5; }), "constant", "the same number -3.5");
  Expect(d.By([](double t, int64_t i) { return i < 128 ? t : 0; }), "only_first",
         "only row 0 of 64 is correct; all wrong ones are zero");
  Expect(d.By([](double t, int64_t i) { return i < 8 * 128 ? t : std::nan(""); }), "only_first",
         "only rows 0 to 7 of 64 are correct");
}

TEST(Explain, Tails) {
  const Damaged d({50, 100});
  Expect(d.By([](double t, int64_t i) { return i % 100 >= 96 ? 0 : t; }), "tail",
         "columns 96 to 99 of 100 (the remainder after whole tiles of 32)");
  Expect(d.By([](double t, int64_t i) {
    return i / 100 >= 48 ? t + static_cast<double>(i % 7 + 1) : t;
  }),
         "tail", "rows 48 to 49 of 50 (the remainder after whole tiles of 16)");
  Expect(d.By([](double t, int64_t i) { return i >= 4997 ? 9 : t; }), "tail",
         "the last 3 elements");
  Expect(
      d.By([](double t, int64_t i) { return i % 100 >= 96 || i / 100 >= 48 ? std::nan("") : t; }),
      "tail", "rows 48 to 49 of 50 (the remainder after whole tiles of 16), and columns 96 to 99");
  const Damaged flat({1000});
  Expect(flat.By([](double t, int64_t i) { return i >= 768 ? 0 : t; }), "tail",
         "elements 768 to 999 of 1000 (the remainder after whole tiles of 256)");
}

TEST(Explain, Slices) {
  const Damaged d({50, 100});
  Expect(d.By([](double t, int64_t i) { return i % 100 == 0 ? t * 1.5 + 1 : t; }), "slice",
         "column 0 of 100");
  Expect(d.By([](double t, int64_t i) { return i % 4 == 3 ? t * t + 7 : t; }), "every_kth",
         "every 4th column is wrong, starting at 3");
  Expect(d.By([](double t, int64_t i) { return i % 100 % 8 >= 6 ? t * t + 7 : t; }), "periodic",
         "the wrong ones are columns 6 to 7 of every 8");
  Expect(d.By([](double t, int64_t i) { return i / 100 % 16 < 3 ? t * t + 7 : t; }), "periodic",
         "the wrong ones are rows 0 to 2 of every 16");
  Expect(d.By([](double t, int64_t i) { return i < 300 ? t * t + 7 : t; }), "range",
         "the wrong ones are rows 0 to 2 of 50");
  Expect(d.By([](double t, int64_t i) { return i < 256 ? t * t + 7 : t; }), "head",
         "the wrong ones are the first 256 elements");
  const Damaged image({2, 8, 6, 6});
  Expect(image.By([](double t, int64_t i) { return i / 36 % 8 == 5 ? t * t + 5 : t; }), "slice",
         "index of axis 1 5 of 8");
}

TEST(Explain, Scales) {
  const Damaged d({64, 96});
  Expect(d.By([](double t, int64_t) { return 2 * t; }), "factor", "the whole output is 2 times");
  Expect(d.By([](double t, int64_t) { return -t; }), "sign_flipped", "the sign flipped");
  Expect(d.By([](double t, int64_t) { return t / 64; }), "factor",
         "1/64 of the expected value (64 is the length of axis 0)");
  Expect(d.By([](double t, int64_t) { return t * std::sqrt(96.0); }), "factor", "sqrt(96) times");
  Expect(d.By([](double t, int64_t) { return t * 64 / 63; }), "factor", "1.01587 times");
  Expect(d.By([](double t, int64_t i) { return i < 96 * 62 ? t : t / 2; }), "factor",
         "rows 62 to 63 of 64; all wrong ones are 1/2 of the expected value");
  Expect(d.By([](double t, int64_t) { return t + 0.25; }), "offset", "off by the constant +0.25");
  const Damaged scalar({}, 3);
  Expect(scalar.By([](double t, int64_t) { return t * 128; }), "factor", "it is 128 times");
}

// An error that follows rows or columns, or has one sign, is a wrong formula, however small it is.
TEST(Explain, CallsOnlyWhatLooksLikeRoundingReducedPrecision) {
  const Damaged d({64, 96});
  const auto noise = [](int64_t i) {
    return static_cast<double>((i * 2654435761) % 1001) / 500.0 - 1;  // between -1 and 1
  };
  Expect(d.By([&](double t, int64_t i) { return t + 0.006 * noise(i); }), "reduced_precision",
         "typical of bfloat16 arithmetic");
  for (const records::Comparison& c :
       {d.By([&](double t, int64_t i) { return t + 0.004 + 0.003 * noise(i); }),
        d.By([&](double t, int64_t i) { return t + 0.004 * noise(i / 96) + 0.001 * noise(i); })}) {
    EXPECT_EQ(c.message.find("bfloat16"), std::string::npos) << c.message;
    EXPECT_FALSE(c.ok);
  }
}

TEST(Explain, Vectors) {
  const Damaged d({64, 96});
  const Damaged bias({96});
  Expect(d.By([&](double t, int64_t i) { return t - bias.At(i % 96); }), "axis_offset",
         "each column is off by its own constant: probably a bias");
  Expect(d.By([&](double t, int64_t i) { return t * (1.5 + bias.At(i / 96)); }), "axis_factor",
         "each row is off by its own factor");
  const Damaged image({4, 8, 6, 6});
  Expect(image.By([&](double t, int64_t i) { return t - bias.At(i / 36 % 8); }), "axis_offset",
         "each index of axis 1");
}

TEST(Explain, Rectifiers) {
  Damaged positive({64, 96});
  const std::vector<double> before = positive.truth;
  positive.Relu();
  Expect(positive.By([&](double, int64_t i) { return before[static_cast<size_t>(i)]; }),
         "missing_relu", "missing max(0, x)");
  Expect(Damaged({64, 96}).By([](double t, int64_t) { return std::max(0.0, t); }), "extra_relu",
         "extra max(0, x)");
}

TEST(Explain, MovedElements) {
  const Damaged square({32, 32}), wide({24, 40});
  Expect(square.By([&](double, int64_t i) { return square.At(i % 32 * 32 + i / 32); }),
         "transposed", "transposed");
  Expect(wide.By([&](double, int64_t i) { return wide.At(i % 24 * 40 + i / 24); }), "transposed",
         "transposed");
  const Damaged image({2, 3, 4, 5});  // written channels last
  Expect(
      image.By([&](double, int64_t i) { return image.At(i / 60 * 60 + i % 3 * 20 + i % 60 / 3); }),
      "transposed", "the axes from 2 on come first");
  Expect(wide.By([&](double, int64_t i) { return wide.At((i + 959) % 960); }), "shifted",
         "by one element towards the end");
  Expect(wide.By([&](double, int64_t i) { return wide.At((i + 40) % 960); }), "shifted",
         "by one row towards the start");
  Expect(wide.By([&](double, int64_t i) { return wide.At(i % 40); }), "repeated_row",
         "every row contains the values of row 0");
  Expect(wide.By([&](double, int64_t i) { return wide.At(i / 40 * 7 % 24 * 40 + i % 40); }),
         "permuted_rows", "row 1 contains the values of row 7");
}

TEST(Explain, Functions) {
  const Damaged d({64, 96}, 5);
  Expect(d.By([](double t, int64_t) { return t * t; }), "function", "missing square root");
  Expect(d.By([](double t, int64_t) { return 1 / t; }), "function", "reciprocal");
}

TEST(Explain, Precision) {
  const Damaged d({64, 96});
  Random random(5);
  const auto noise = [&](double size) {
    return [&random, size](double t, int64_t) { return t + size * Normal(random); };
  };
  Expect(d.By(noise(0x1p-11)), "reduced_precision", "about 2^-11");
  Expect(d.By(noise(0x1p-8)), "reduced_precision", "bfloat16");
  Expect(d.By(noise(0x1p-16)), "lost_precision", "rounding, cancellation");
}

TEST(Explain, Isolated) {
  const Damaged d({64, 96});
  Expect(d.By([](double t, int64_t i) { return i == 77 || i == 3001 || i == 4444 ? t + 7 : t; }),
         "isolated", "a boundary, a race");
}

TEST(Explain, ReportsNoPatternIfNoneIsClear) {
  const Damaged d({64, 96});
  Random random(9);
  const records::Comparison c =
      d.By([&](double t, int64_t) { return random.Below(3) ? t : Normal(random); });
  EXPECT_EQ(c.pattern, "") << c.message;
  EXPECT_THAT(c.message, testing::EndsWith(")"));
}

}  // namespace
}  // namespace cupel::judge
