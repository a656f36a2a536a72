// Arithmetic in a field, and shadows that are elements of one: programs that compute the same
// function of real numbers give the same elements, others do not.
// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/field.h"

#include <cmath>
#include <numbers>

#include "emu/shadow/shadow_testing.h"

namespace cupel::emu {
namespace {

using engine::FieldElement;

/// log2(e) is any element, and ln(2) its inverse. 0.1 is a number of the reference.
engine::FieldOptions Options(int index) {
  engine::FieldOptions options;
  options.index = index;
  options.seed = 77;
  const uint64_t p = engine::FieldPrimes(options.seed).at(static_cast<size_t>(index)),
                 q = (p - 1) / 2;
  const auto inverse = [](uint64_t of, uint64_t modulus) {
    uint64_t power = 1;
    for (uint64_t exponent = modulus - 2; exponent != 0; exponent >>= 1, of = of * of % modulus) {
      if ((exponent & 1u) != 0) power = power * of % modulus;
    }
    return static_cast<uint32_t>(power);
  };
  options.numbers = {{std::numbers::log2e, 12345, 678},
                     {std::numbers::ln2, inverse(12345, p), inverse(678, q)},
                     {0.1, inverse(10, p), inverse(10, q)}};
  return options;
}

FieldElement ElementOf(double carried) {
  return engine::UnpackElement(std::bit_cast<uint64_t>(carried));
}

class FieldTest : public testing::TestWithParam<int> {
 protected:
  Field field_{Options(GetParam())};
  const double a_ = field_.Input(0, 3), b_ = field_.Input(1, 3), c_ = field_.Input(1, 4);
};

TEST_P(FieldTest, HasTheLawsOfRealNumbers) {
  const Field& f = field_;
  EXPECT_EQ(f.Mul(f.Add(a_, b_), c_), f.Add(f.Mul(a_, c_), f.Mul(b_, c_)));
  EXPECT_EQ(f.Mul(f.Div(a_, b_), b_), a_);
  EXPECT_EQ(f.Sub(f.Add(a_, b_), b_), a_);
  EXPECT_EQ(f.Leaf(0.375), f.Div(f.Leaf(3), f.Leaf(8)));
  EXPECT_EQ(f.Leaf(-5), f.Neg(f.Leaf(5)));
  EXPECT_EQ(f.Leaf(0x1p-149), f.Div(f.Leaf(0x1p-100), f.Leaf(0x1p49)));
  EXPECT_NE(a_, b_);
  EXPECT_NE(f.Leaf(1 + 0x1p-11), f.Leaf(1));
}

TEST_P(FieldTest, KnowsLawsOfFunctions) {
  const Field& f = field_;
  const auto p = [](double x) { return ElementOf(x).p; };
  EXPECT_EQ(p(f.Exp2(f.Add(a_, b_), 3)), p(f.Mul(f.Exp2(a_, 1), f.Exp2(b_, 2))));
  EXPECT_EQ(p(f.Mul(f.Exp2(a_, 1), f.Exp2(f.Neg(a_), -1))), 1u);
  const double shifted = f.Exp2(f.Add(a_, f.Leaf(5)), 5.75),
               scaled = f.Mul(f.Exp2(a_, 0.75), f.Leaf(32));
  EXPECT_EQ(ElementOf(shifted).p, ElementOf(scaled).p);
  EXPECT_EQ(ElementOf(shifted).q, ElementOf(scaled).q);
  EXPECT_EQ(p(f.Sqrt(f.Mul(a_, b_))), p(f.Mul(f.Sqrt(a_), f.Sqrt(b_))));
  EXPECT_EQ(p(f.Mul(f.Sqrt(a_), f.Rsqrt(a_))), 1u);
  const double square = f.Mul(f.Sqrt(a_), f.Sqrt(a_));
  EXPECT_TRUE(p(square) == p(a_) || p(square) == p(f.Neg(a_)));
  EXPECT_TRUE(ElementOf(square).flags & engine::kFieldOpaque);
  // tanh x = (e^x - e^-x) / (e^x + e^-x)
  const double e = f.Exp2(f.Mul(a_, f.Leaf(std::numbers::log2e)), 1), inverse = f.Div(f.Leaf(1), e);
  EXPECT_EQ(p(f.Tanh(a_, 1)), p(f.Div(f.Sub(e, inverse), f.Add(e, inverse))));
  EXPECT_EQ(f.Sin(f.Neg(a_)), f.Neg(f.Sin(a_)));
  EXPECT_NE(p(f.Sin(a_)), p(f.Cos(a_)));
}

TEST_P(FieldTest, LogarithmsAreThoseOfPowers) {
  const Field& f = field_;
  const auto q = [](double x) { return ElementOf(x).q; };
  EXPECT_EQ(q(f.Log2(f.Mul(a_, b_))), q(f.Add(f.Log2(a_), f.Log2(b_))));
  EXPECT_EQ(q(f.Log2(f.Div(a_, b_))), q(f.Sub(f.Log2(a_), f.Log2(b_))));
  EXPECT_EQ(q(f.Log2(f.Exp2(a_, 1))), ElementOf(a_).q);
  EXPECT_EQ(q(f.Log2(f.Leaf(32))), q(f.Leaf(5)));
  EXPECT_NE(q(f.Log2(f.Add(a_, b_))), q(f.Add(f.Log2(a_), f.Log2(b_))));
  EXPECT_TRUE(ElementOf(f.Log2(f.Sub(a_, a_))).flags & engine::kFieldUnknown);
}

TEST_P(FieldTest, SymmetricFunctionsKnowIt) {
  const Field& f = field_;
  EXPECT_EQ(f.Erf(f.Neg(a_)), f.Neg(f.Erf(a_)));
  EXPECT_EQ(f.Cos(f.Neg(a_)), f.Cos(a_));
  EXPECT_NE(ElementOf(f.Erf(f.Add(a_, b_))).p, ElementOf(f.Erf(a_)).p);
}

TEST_P(FieldTest, ConstantsStandForNumbersOfTheReference) {
  const Field& f = field_;
  const auto inverse = f.Div(f.Leaf(1), f.Leaf(10));
  for (const double tenth : {0.1, double{0.1F}}) {
    EXPECT_EQ(f.Leaf(tenth), inverse);
    EXPECT_EQ(f.Leaf(-tenth), f.Neg(inverse));
    EXPECT_EQ(f.Leaf(tenth * 0x1p7), f.Mul(inverse, f.Leaf(128)));
  }
  const double truncated = std::nextafter(0.1F, 0.F);
  EXPECT_NE(ElementOf(f.Leaf(truncated)).p, ElementOf(inverse).p);
  EXPECT_EQ(ElementOf(f.Leaf(truncated)).flags, engine::kFieldConstant);
  EXPECT_EQ(ElementOf(f.Leaf(100003)).flags, 0u);
}

TEST_P(FieldTest, SaysWhatHasNoElement) {
  const Field& f = field_;
  EXPECT_EQ(ElementOf(f.Leaf(INFINITY)).flags, engine::kFieldUnknown);
  EXPECT_EQ(ElementOf(f.Leaf(NAN)).flags, engine::kFieldUnknown);
  EXPECT_TRUE(ElementOf(f.Div(a_, f.Sub(b_, b_))).flags & engine::kFieldUnknown);
}

INSTANTIATE_TEST_SUITE_P(Primes, FieldTest, testing::Range(0, 4));

/// The elements that `body` stores.
std::vector<FieldElement> Elements(const std::string& body, uint32_t* flags = nullptr) {
  std::vector<float> inputs;
  for (int i = 0; i < kThreads; ++i) inputs.push_back(Input(i));
  Interpreter emu(ShadowProgram(body, ""));
  auto run = ShadowRun::Create(emu.memory().base(), Options(0));
  EXPECT_TRUE(run);
  emu.shadows = run->get();
  const uint64_t in = emu.Buffer(inputs), out = emu.Buffer(std::vector<float>(kThreads));
  ShadowMemory& memory = (*run)->memory();
  for (int i = 0; i < kThreads; ++i) {
    memory.Write(in + 4 * static_cast<uint64_t>(i), DType::kF32,
                 std::bit_cast<uint32_t>(inputs[static_cast<size_t>(i)]),
                 {memory.field()->Input(0, static_cast<uint64_t>(i)), 0});
  }
  const LaunchOutcome outcome = emu.Launch("k", {1}, {kThreads}, in, out);
  EXPECT_TRUE(outcome.completed) << Summary(outcome) << body;
  const std::vector<float> values = emu.Read<float>(out, kThreads);
  std::vector<FieldElement> elements;
  for (int i = 0; i < kThreads; ++i) {
    const Shadow shadow = memory.Read(out + 4 * static_cast<uint64_t>(i), DType::kF32,
                                      std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]));
    elements.push_back(ElementOf(shadow.exact));
    if (flags != nullptr) *flags |= shadow.flags & kCauses;
  }
  return elements;
}

void ExpectSame(const std::string& one, const std::string& other) {
  uint32_t flags = 0;
  const auto a = Elements(one, &flags), b = Elements(other, &flags);
  EXPECT_EQ(flags, 0u) << one;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].p, b.at(i).p) << one << i;
}
void ExpectDifferent(const std::string& one, const std::string& other) {
  const auto a = Elements(one), b = Elements(other);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i].p, b.at(i).p) << one << i;
}

constexpr const char* kStoreResult = "st.global.f32 [%rd2], %f2;";
std::string Body(const std::string& body) { return body + kStoreResult; }

TEST(FieldShadows, OrderAndRoundingOfSumsDoNotMatter) {
  ExpectSame(Body("add.f32 %f3, %f1, 0f40400000; mul.f32 %f2, %f3, %f1;"),
             Body("mul.f32 %f3, %f1, 0f40400000; fma.rn.f32 %f2, %f1, %f1, %f3;"));
  ExpectSame(Body("div.rn.f32 %f2, %f1, 0f40400000; mul.f32 %f2, %f2, 0f40400000;"),
             Body("mov.f32 %f2, %f1;"));
  ExpectSame(Body("shfl.sync.bfly.b32 %f3, %f1, 0, 31, -1; add.f32 %f2, %f3, %f1;"),
             Body("add.f32 %f2, %f1, %f1;"));
  ExpectSame(Body("cvt.rn.f16.f32 %h1, %f1; add.f16 %h1, %h1, %h1; cvt.f32.f16 %f2, %h1;"),
             Body("add.f32 %f2, %f1, %f1;"));
}

TEST(FieldShadows, SeesTermsBelowRounding) {
  // 2^-40 x disappears when it is added, and so does its trace in a run with doubles of 2^-53.
  ExpectDifferent(Body("fma.rn.f32 %f2, %f1, 0f2B800000, %f1;"), Body("mov.f32 %f2, %f1;"));
  ExpectDifferent(Body("add.f32 %f2, %f1, 0f0DA24260;"), Body("mov.f32 %f2, %f1;"));
  ExpectDifferent(Body("mul.f32 %f2, %f1, 0f3DCCCCCD;"), Body("mul.f32 %f2, %f1, 0f3DCCCCCC;"));
}

TEST(FieldShadows, FollowsExponentials) {
  // e^x e^x = 2^(2 x log2(e)), with log2(e) rounded to float32
  ExpectSame(Body("mul.f32 %f3, %f1, 0f3FB8AA3B; ex2.approx.f32 %f3, %f3; mul.f32 %f2, %f3, %f3;"),
             Body("add.f32 %f3, %f1, %f1; mul.f32 %f3, %f3, 0f3FB8AA3B; ex2.approx.f32 %f2, %f3;"));
  ExpectDifferent(Body("mul.f32 %f3, %f1, 0f3FB8AA3B; ex2.approx.f32 %f2, %f3;"),
                  Body("mul.f32 %f3, %f1, 0f3FB8AA3A; ex2.approx.f32 %f2, %f3;"));
  ExpectSame(Body("mov.f32 %f3, 0fFF800000; sub.f32 %f3, %f3, %f1; ex2.approx.f32 %f3, %f3; "
                  "add.f32 %f2, %f3, %f1;"),
             Body("mov.f32 %f2, %f1;"));  // 2^-inf = 0
}

TEST(FieldShadows, SignsAndChoicesFollowTheValues) {
  ExpectSame(Body("neg.f32 %f3, %f1; abs.f32 %f2, %f3;"), Body("mov.f32 %f2, %f1;"));
  ExpectSame(Body("neg.f32 %f3, %f1; mov.b32 %r3, %f3; and.b32 %r3, %r3, 0x7fffffff; "
                  "mov.b32 %f2, %r3;"),
             Body("mov.f32 %f2, %f1;"));
  ExpectSame(Body("neg.f32 %f3, %f1; max.f32 %f2, %f3, %f1;"), Body("mov.f32 %f2, %f1;"));
  ExpectSame(Body("neg.f32 %f3, %f1; min.f32 %f2, %f3, %f1;"), Body("neg.f32 %f2, %f1;"));
  ExpectSame(Body("neg.f32 %f3, %f1; cvt.sat.f32.f32 %f3, %f3; add.f32 %f2, %f3, %f1;"),
             Body("mov.f32 %f2, %f1;"));
}

/// erff of the CUDA library for small numbers. The coefficients' last digits decide.
std::string SmallErf(const std::string& last = "0f3E0375D3") {
  std::string body =
      "mul.f32 %f1, %f1, 0f3C800000; mul.f32 %f3, %f1, %f1; mov.f32 %f4, 0f38B1E96A; ";
  for (const std::string c :
       {"0fBA574D20", "0f3BAAD5EA", "0fBCDC1BE7", "0f3DE718AF", "0fBEC093AC"}) {
    body += "mov.f32 %f5, " + c + "; fma.rn.f32 %f4, %f4, %f3, %f5; ";
  }
  return body + "fma.rn.f32 %f4, %f3, %f4, " + last + "; ";
}

TEST(FieldShadows, TheSecondPartOfLog2eCountsOnce) {
  const std::string first = "mul.f32 %f1, %f1, 0f3C800000; mul.f32 %f3, %f1, 0f3FB8AA3B; ",
                    second = "fma.rn.f32 %f3, %f1, 0f32A57060, %f3; ",
                    power = "ex2.approx.f32 %f2, %f3;";
  const auto one = Elements(Body(first + power)), both = Elements(Body(first + second + power));
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(both[i].p, one[i].p);
  for (const FieldElement& element : Elements(Body(first + second + second + power))) {
    EXPECT_TRUE(element.flags & engine::kFieldUnknown);
  }
}

TEST(FieldPrimes, AreSafePrimesThatDependOnTheSeed) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const uint32_t p : engine::FieldPrimes(seed)) {
      EXPECT_EQ(p % 8, 7u);
      EXPECT_GT(p, 1u << 28);
      EXPECT_LT(p, 1u << 29);
      for (const uint32_t n : {p, p / 2}) {
        for (uint32_t d = 2; d * d <= n; ++d) ASSERT_NE(n % d, 0u) << n;
      }
    }
  }
  EXPECT_NE(engine::FieldPrimes(1), engine::FieldPrimes(2));
}

TEST(FieldShadows, RecognisesFunctionsOfTheLibrary) {
  const std::string end = "fma.rn.f32 %f2, %f4, %f1, %f1; ";
  const auto erf = Elements(Body(SmallErf() + end));
  Field field{Options(0)};
  for (int i = 0; i < kThreads; ++i) {
    const double x = field.Mul(field.Input(0, static_cast<uint64_t>(i)), field.Leaf(0x1p-6));
    EXPECT_EQ(erf.at(static_cast<size_t>(i)), ElementOf(field.Erf(x)));
  }
  // Another coefficient, another argument, a step less, numbers for which the library has another
  // polynomial: none of them is erf.
  for (const std::string& other :
       {SmallErf("0f3E0375D4") + end, SmallErf() + "fma.rn.f32 %f2, %f4, %f3, %f3; ",
        SmallErf() + "fma.rn.f32 %f2, %f4, %f1, %f3; ", SmallErf() + "add.f32 %f2, %f4, %f1; ",
        SmallErf() + "mov.f32 %f2, %f4; ", "mul.f32 %f1, %f1, 0f43800000; " + SmallErf() + end}) {
    for (const FieldElement& element : Elements(Body(other))) {
      EXPECT_TRUE(element.flags & (engine::kFieldConstant | engine::kFieldWithin)) << other;
    }
  }
  // What has left a polynomial is nothing: it must not count as zero.
  for (const FieldElement& element : Elements(Body(SmallErf() + "add.f32 %f2, %f4, %f1; "))) {
    EXPECT_TRUE(element.flags & engine::kFieldUnknown);
  }
}

TEST(FieldShadows, ChoicesBetweenEqualNumbersTakeTheComputedOne) {
  const std::string one = "mul.f32 %f3, %f1, 0f2B800000; add.f32 %f4, %f3, 0f3F800000; ";
  ExpectSame(Body(one + "setp.eq.f32 %p1, %f1, %f1; selp.f32 %f2, 0f3F800000, %f4, %p1;"),
             Body(one + "mov.f32 %f2, %f4;"));
  ExpectDifferent(Body("add.f32 %f4, %f1, %f1; setp.eq.f32 %p1, %f1, %f1; "
                       "selp.f32 %f2, 0f3F800000, %f4, %p1;"),
                  Body("add.f32 %f2, %f1, %f1;"));
}

}  // namespace
}  // namespace cupel::emu
