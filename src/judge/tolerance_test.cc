// The table of docs/judging.md: simulated float32 kernels that the tolerance must accept or reject.
// E is computed here by the formula, in double. The kernels' roundings are simulated one by one. K,
// on which the errors depend, is as in the table; the other extents are small.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "judge/compare.h"
#include "judge/testing.h"

namespace cupel::judge {
namespace {

using Vector = std::vector<double>;
using Inputs = std::vector<Vector>;  // float32 values, held as double

constexpr double kU = 0x1p-24;
constexpr int kDraws = 8;

struct Operation {
  std::vector<int64_t> shape;
  std::function<Inputs(Random&)> draw;
  std::function<Vector(const Inputs&)> truth;                // double throughout
  std::function<std::vector<float>(const Inputs&)> pytorch;  // float32, as a good library sums
};

using Kernel = std::function<std::vector<float>(const Inputs&)>;

Vector Draw(Random& random, size_t n, double scale, double mean = 0) {
  Vector values(n);
  for (double& v : values) v = static_cast<float>(mean + scale * Normal(random));
  return values;
}

/// The least error scale, as a multiple of the result's RMS.
double LeastScale(DType dtype) { return dtype == DType::kF32 ? 4 * kU : UnitRoundoff(dtype) / 2; }

double ErrorScale(const Operation& op, DType dtype) {
  double pytorch = 0, perturbed = 0, truth_squares = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    Random random(static_cast<uint64_t>(100 + draw));
    const Inputs inputs = op.draw(random);
    const Vector truth = op.truth(inputs);
    const std::vector<float> fast = op.pytorch(inputs);
    Inputs moved = inputs;
    for (Vector& v : moved) {
      for (double& x : v) x *= 1 + 0x1p-22 * (2 * random.Unit() - 1);
    }
    const Vector changed = op.truth(moved);
    for (size_t i = 0; i < truth.size(); ++i) {
      const double n = static_cast<double>(truth.size() * kDraws);
      pytorch += (fast[i] - truth[i]) * (fast[i] - truth[i]) / n;
      perturbed += (changed[i] - truth[i]) * (changed[i] - truth[i]) / n;
      truth_squares += truth[i] * truth[i] / n;
    }
  }
  return std::max(
      {std::sqrt(pytorch), std::sqrt(perturbed), LeastScale(dtype) * std::sqrt(truth_squares)});
}

/// The worst of four draws.
void ExpectVerdict(const char* name, const Operation& op, const Kernel& kernel, bool accept,
                   DType dtype = DType::kF32) {
  const double scale = ErrorScale(op, dtype);
  double rms = 0, largest = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    const Inputs inputs = op.draw(random);
    const Vector truth = op.truth(inputs);
    const std::vector<float> got = kernel(inputs);
    task::Output want;
    want.shape = op.shape;
    want.truth = TensorOf(truth, op.shape, DType::kF64);
    want.error_scale = scale;
    want.dtype = dtype;
    std::vector<uint16_t> halves;
    for (const float x : got) halves.push_back(FloatToHalf(x));
    const records::Comparison c = dtype == DType::kF32
                                      ? Compare(TensorOf(got, op.shape, dtype), want)
                                      : Compare(TensorOf(halves, op.shape, dtype), want);
    rms = std::max(rms, c.rms_error / c.rms_limit);
    largest = std::max(largest, c.max_error / c.max_limit);
    EXPECT_EQ(c.ok, accept) << name << ": " << c.message;
  }
  std::printf("  %-46s RMS/limit %8.3g  max/limit %8.3g  %s\n", name, rms, largest,
              accept ? "accept" : "reject");
}

// --- linear: x[m,k] times w[n,k] ---

constexpr size_t kM = 8, kN = 24;

template <typename Dot>
auto ForEachDot(const Inputs& inputs, Dot dot) {
  const size_t k = inputs[0].size() / kM;
  std::vector<decltype(dot(nullptr, nullptr, k))> out(kM * kN);
  for (size_t i = 0; i < kM; ++i) {
    for (size_t j = 0; j < kN; ++j) out[i * kN + j] = dot(&inputs[0][i * k], &inputs[1][j * k], k);
  }
  return out;
}

float Fma(double a, double b, float c) { return static_cast<float>(std::fma(a, b, c)); }

float BlockedDot(const double* a, const double* b, size_t k) {
  float lanes[16] = {};
  for (size_t i = 0; i < k; ++i) lanes[i % 16] = Fma(a[i], b[i], lanes[i % 16]);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

/// Applies `round` to each factor before the multiplication. Sums are blocked.
template <typename Round>
float RoundedDot(const double* a, const double* b, size_t k, Round round) {
  float lanes[16] = {};
  for (size_t i = 0; i < k; ++i) lanes[i % 16] = Fma(round(a[i]), round(b[i]), lanes[i % 16]);
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

Operation Linear(size_t k) {
  Operation op;
  op.shape = {kM, kN};
  op.draw = [k](Random& r) {
    return Inputs{Draw(r, kM * k, 1), Draw(r, kN * k, 1 / std::sqrt(static_cast<double>(k)))};
  };
  op.truth = [](const Inputs& in) {
    return ForEachDot(in, [](const double* a, const double* b, size_t n) {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
      return sum;
    });
  };
  op.pytorch = [](const Inputs& in) { return ForEachDot(in, BlockedDot); };
  return op;
}

std::vector<float> SerialLinear(const Inputs& in) {
  return ForEachDot(in, [](const double* a, const double* b, size_t k) {
    float sum = 0;
    for (size_t i = 0; i < k; ++i) sum = Fma(a[i], b[i], sum);
    return sum;
  });
}

/// Rounds to `bits` significant bits, to nearest.
double RoundTo(double x, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

TEST(Tolerance, LinearSerialSums) {
  ExpectVerdict("linear, serial sum, K = 128", Linear(128), SerialLinear, true);
  ExpectVerdict("linear, serial sum, K = 14336", Linear(14336), SerialLinear, true);
}

TEST(Tolerance, LinearTensorFloat32) {
  ExpectVerdict(
      "linear, tf32, K = 4096", Linear(4096),
      [](const Inputs& in) {
        return ForEachDot(in, [](const double* a, const double* b, size_t k) {
          return RoundedDot(a, b, k, [](double x) { return RoundTo(x, 11); });
        });
      },
      false);
}

TEST(Tolerance, LinearTwoTermBFloat16) {
  ExpectVerdict(
      "linear, two-term bf16 (16 bits), K = 4096", Linear(4096),
      [](const Inputs& in) {
        return ForEachDot(in, [](const double* a, const double* b, size_t k) {
          return RoundedDot(a, b, k, [](double x) {
            const double high = RoundTo(x, 8);
            return high + RoundTo(x - high, 8);
          });
        });
      },
      true);
}

TEST(Tolerance, LinearOneTermDropped) {
  ExpectVerdict(
      "linear, one k of 4096 dropped", Linear(4096),
      [](const Inputs& in) {
        return ForEachDot(
            in, [](const double* a, const double* b, size_t k) { return BlockedDot(a, b, k - 1); });
      },
      false);
}

// --- exponentials ---

/// ex2.approx(x * log2(e)): the product rounds, the approximation is off by up to 2^-22.
float FastExp(float x) {
  const float t = x * 1.4426950408889634f;
  Random noise(static_cast<uint64_t>(std::llround(static_cast<double>(x) * 0x1p30)));
  return static_cast<float>(std::exp2(static_cast<double>(t)) *
                            (1 + 0x1p-22 * (2 * noise.Unit() - 1)));
}

constexpr size_t kRows = 16, kClasses = 1000;

/// Float32 softmax of one row with the sum in order; returns the sum.
template <typename Exp>
float SoftmaxRow(const double* x, size_t n, Exp exp, float* out) {
  const float largest = static_cast<float>(*std::max_element(x, x + n));
  float sum = 0;
  for (size_t i = 0; i < n; ++i) {
    out[i] = exp(static_cast<float>(x[i]) - largest);
    sum += out[i];
  }
  for (size_t i = 0; i < n; ++i) out[i] /= sum;
  return sum;
}

template <typename Exp>
std::vector<float> Softmax(const Inputs& in, Exp exp) {
  std::vector<float> out(in[0].size());
  for (size_t r = 0; r < kRows; ++r) {
    SoftmaxRow(&in[0][r * kClasses], kClasses, exp, &out[r * kClasses]);
  }
  return out;
}

float AccurateExp(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }

TEST(Tolerance, SoftmaxByFastExponential) {
  Operation op;
  op.shape = {kRows, kClasses};
  op.draw = [](Random& r) { return Inputs{Draw(r, kRows * kClasses, 1)}; };
  op.truth = [](const Inputs& in) {
    Vector out(in[0].size());
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (size_t i = 0; i < kClasses; ++i) sum += std::exp(in[0][r * kClasses + i]);
      for (size_t i = 0; i < kClasses; ++i) {
        out[r * kClasses + i] = std::exp(in[0][r * kClasses + i]) / sum;
      }
    }
    return out;
  };
  op.pytorch = [](const Inputs& in) { return Softmax(in, AccurateExp); };
  ExpectVerdict("softmax, __expf", op, [](const Inputs& in) { return Softmax(in, FastExp); }, true);
}

template <typename Exp>
std::vector<float> CrossEntropy(const Inputs& in, Exp exp) {
  std::vector<float> scratch(kClasses);
  float total = 0;
  for (size_t r = 0; r < kRows; ++r) {
    const double* x = &in[0][r * kClasses];
    const float largest = static_cast<float>(*std::max_element(x, x + kClasses));
    const float sum = SoftmaxRow(x, kClasses, exp, scratch.data());
    total += std::log(sum) - (static_cast<float>(x[r]) - largest);
  }
  return {total / static_cast<float>(kRows)};
}

TEST(Tolerance, CrossEntropyByFastExponential) {
  Operation op;
  op.shape = {};
  op.draw = [](Random& r) { return Inputs{Draw(r, kRows * kClasses, 1)}; };
  op.truth = [](const Inputs& in) {
    double total = 0;
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (size_t i = 0; i < kClasses; ++i) sum += std::exp(in[0][r * kClasses + i]);
      total += std::log(sum) - in[0][r * kClasses + r];
    }
    return Vector{total / static_cast<double>(kRows)};
  };
  op.pytorch = [](const Inputs& in) { return CrossEntropy(in, AccurateExp); };
  ExpectVerdict(
      "cross entropy, __expf, serial float sum", op,
      [](const Inputs& in) { return CrossEntropy(in, FastExp); }, true);
}

// --- GELU, the tanh form ---

template <typename Tanh>
std::vector<float> Gelu(const Inputs& in, Tanh tanh_of) {
  std::vector<float> out;
  for (double value : in[0]) {
    const auto x = static_cast<float>(value);
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    out.push_back(0.5f * x * (1 + tanh_of(inner)));
  }
  return out;
}

TEST(Tolerance, Gelu) {
  Operation op;
  op.shape = {4096};
  op.draw = [](Random& r) { return Inputs{Draw(r, 4096, 1)}; };
  op.truth = [](const Inputs& in) {
    Vector out;
    for (double x : in[0]) {
      const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      out.push_back(0.5 * x * (1 + std::tanh(inner)));
    }
    return out;
  };
  const auto exact = [](float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); };
  op.pytorch = [&](const Inputs& in) { return Gelu(in, exact); };
  ExpectVerdict(
      "GELU by tanh.approx (11 bits)", op,
      [](const Inputs& in) {
        return Gelu(in, [](float x) {
          return static_cast<float>(RoundTo(std::tanh(static_cast<double>(x)), 11));
        });
      },
      false);
  ExpectVerdict(
      "GELU by expf", op,
      [](const Inputs& in) {
        return Gelu(in, [](float x) { return 1 - 2 / (AccurateExp(2 * x) + 1); });
      },
      true);
}

// --- layer norm ---

constexpr size_t kWidth = 4096;

/// 256 partial sums, then a tree, like one block.
template <typename Term>
float BlockSum(Term term) {
  std::vector<float> partial(256, 0.0f);
  for (size_t i = 0; i < kWidth; ++i) partial[i % 256] += term(i);
  for (size_t half = 128; half > 0; half /= 2) {
    for (size_t t = 0; t < half; ++t) partial[t] += partial[t + half];
  }
  return partial[0];
}

template <typename Variance>
std::vector<float> LayerNorm(const Inputs& in, Variance variance) {
  std::vector<float> out(in[0].size());
  for (size_t r = 0; r < out.size() / kWidth; ++r) {
    const double* x = &in[0][r * kWidth];
    const float mean = BlockSum([&](size_t i) { return static_cast<float>(x[i]); }) / kWidth;
    const float scale = 1 / std::sqrt(variance(x, mean) + 1e-5f);
    for (size_t i = 0; i < kWidth; ++i) {
      out[r * kWidth + i] = (static_cast<float>(x[i]) - mean) * scale;
    }
  }
  return out;
}

Operation LayerNormAt(double mean) {
  constexpr size_t kCount = 4;
  Operation op;
  op.shape = {kCount, kWidth};
  op.draw = [mean](Random& r) { return Inputs{Draw(r, kCount * kWidth, 1, mean)}; };
  op.truth = [](const Inputs& in) {
    Vector out(in[0].size());
    for (size_t r = 0; r < kCount; ++r) {
      const double* x = &in[0][r * kWidth];
      double m = 0, v = 0;
      for (size_t i = 0; i < kWidth; ++i) m += x[i] / kWidth;
      for (size_t i = 0; i < kWidth; ++i) v += (x[i] - m) * (x[i] - m) / kWidth;
      for (size_t i = 0; i < kWidth; ++i) out[r * kWidth + i] = (x[i] - m) / std::sqrt(v + 1e-5);
    }
    return out;
  };
  op.pytorch = [](const Inputs& in) {
    return LayerNorm(in, [](const double* x, float m) {
      return BlockSum([&](size_t i) {
               const float d = static_cast<float>(x[i]) - m;
               return d * d;
             }) /
             kWidth;
    });
  };
  return op;
}

TEST(Tolerance, LayerNormByMeanOfSquares) {
  const Kernel kernel = [](const Inputs& in) {
    return LayerNorm(in, [](const double* x, float m) {
      const float squares = BlockSum([&](size_t i) {
        const auto v = static_cast<float>(x[i]);
        return v * v;
      });
      return squares / kWidth - m * m;
    });
  };
  ExpectVerdict("layer norm by E[x^2]-m^2, mean 0", LayerNormAt(0), kernel, true);
  ExpectVerdict("layer norm by E[x^2]-m^2, mean 10", LayerNormAt(10), kernel, true);
  ExpectVerdict("layer norm by E[x^2]-m^2, mean 100", LayerNormAt(100), kernel, false);
}

// --- half: values and results are halves ---

constexpr int kHalfDigits = 11;

double HalfOf(double x) { return RoundTo(x, kHalfDigits); }

/// Products of halves. `dot` gives the number before the result is rounded.
template <typename Dot>
void ExpectHalf(const char* name, size_t k, Dot dot, bool accept) {
  Operation op = Linear(k);
  const auto draw = op.draw;
  op.draw = [draw](Random& r) {
    Inputs inputs = draw(r);
    for (Vector& v : inputs) {
      for (double& x : v) x = HalfOf(x);
    }
    return inputs;
  };
  op.pytorch = [](const Inputs& in) {
    std::vector<float> out = ForEachDot(in, BlockedDot);
    for (float& x : out) x = static_cast<float>(HalfOf(x));
    return out;
  };
  const auto kernel = [dot](const Inputs& in) {
    const auto sums = ForEachDot(in, dot);
    std::vector<float> out;
    for (const auto x : sums) out.push_back(static_cast<float>(HalfOf(x)));
    return out;
  };
  ExpectVerdict(name, op, kernel, accept, DType::kF16);
}

TEST(Tolerance, HalfSumsInFloat) {
  ExpectHalf("half product, sums in float32, K = 4096", 4096, BlockedDot, true);
}

TEST(Tolerance, HalfRoundsPartialSums) {
  ExpectHalf(
      "half product, 4 partial sums in half, K = 4096", 4096,
      [](const double* a, const double* b, size_t k) {
        double sum = 0;
        for (size_t part = 0; part < 4; ++part) {
          sum = HalfOf(sum + HalfOf(BlockedDot(a + part * k / 4, b + part * k / 4, k / 4)));
        }
        return sum;
      },
      true);
}

TEST(Tolerance, HalfSumsInHalf) {
  const auto dot = [](const double* a, const double* b, size_t k) {
    double sum = 0;
    for (size_t i = 0; i < k; ++i) sum = HalfOf(std::fma(a[i], b[i], sum));
    return sum;
  };
  ExpectHalf("half product, sums in half, K = 16", 16, dot, true);
  ExpectHalf("half product, sums in half, K = 256", 256, dot, false);
}

}  // namespace
}  // namespace cupel::judge
