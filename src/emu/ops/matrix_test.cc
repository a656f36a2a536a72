// Tests mma.sync with the fragment layouts of the PTX ISA written out, wmma, and a pipelined GEMM.
// The reference is a plain product of matrices of small integers, which are exact in every type.
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "base/random.h"
#include "emu/core/launch_request.h"
#include "emu/core/warp.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/ops/handlers.h"

namespace cupel::emu {
namespace {

/// Row and column of element `i` of lane `lane`.
struct Position {
  int row, column;
};
using Layout = std::function<Position(int lane, int i)>;

/// How a value is stored, and in how many bits.
struct Numbers {
  std::string name;
  int bits;
  std::function<uint64_t(int)> encode;
};

uint64_t EncodeFloat(int value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  const uint64_t sign = value < 0 ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  int power = 63 - __builtin_clzll(magnitude);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t fraction =
      (magnitude << (mantissa_bits - power)) & ((uint64_t{1} << mantissa_bits) - 1);
  return sign | static_cast<uint64_t>(power + bias) << mantissa_bits | fraction;
}
Numbers FloatFormat(const std::string& name, int bits, int exponent_bits, int mantissa_bits) {
  return {name, bits, [=](int value) { return EncodeFloat(value, exponent_bits, mantissa_bits); }};
}
Numbers IntegerFormat(const std::string& name, int bits) {
  return {name, bits,
          [=](int value) { return static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1); }};
}
const Numbers kF16 = FloatFormat("f16", 16, 5, 10);
const Numbers kBF16 = FloatFormat("bf16", 16, 8, 7);
const Numbers kTF32 = FloatFormat("tf32", 32, 8, 23);
const Numbers kF32 = FloatFormat("f32", 32, 8, 23);
const Numbers kF64 = FloatFormat("f64", 64, 11, 52);
const Numbers kE4M3 = FloatFormat("e4m3", 8, 4, 3);
const Numbers kE5M2 = FloatFormat("e5m2", 8, 5, 2);
const Numbers kS8 = IntegerFormat("s8", 8), kU8 = IntegerFormat("u8", 8);
const Numbers kS4 = IntegerFormat("s4", 4), kU4 = IntegerFormat("u4", 4);
const Numbers kS32 = IntegerFormat("s32", 32);

struct ProductShape {
  int m, n, k;
  Layout a, b;
};
int Group(int lane) { return lane / 4; }
int Member(int lane) { return lane % 4; }

// Tables of the PTX ISA, "Matrix fragments for mma", by shape and width.
ProductShape Wide16() {  // m16n8k16, 16 bits
  return {
      16, 8, 16,
      [](int l, int i) {
        const bool upper = i < 2 || (i >= 4 && i < 6);
        return Position{Group(l) + (upper ? 0 : 8), Member(l) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
      },
      [](int l, int i) { return Position{Member(l) * 2 + (i & 1) + (i < 2 ? 0 : 8), Group(l)}; }};
}
ProductShape Short16() {  // m16n8k8, 16 bits
  return {
      16, 8, 8,
      [](int l, int i) { return Position{Group(l) + (i < 2 ? 0 : 8), Member(l) * 2 + (i & 1)}; },
      [](int l, int i) { return Position{Member(l) * 2 + i, Group(l)}; }};
}
ProductShape Wide32() {  // m16n8k8, tf32
  return {16, 8, 8,
          [](int l, int i) {
            return Position{Group(l) + (i == 0 || i == 2 ? 0 : 8), Member(l) + (i < 2 ? 0 : 4)};
          },
          [](int l, int i) { return Position{Member(l) + (i == 0 ? 0 : 4), Group(l)}; }};
}
ProductShape Short32() {  // m16n8k4, tf32
  return {16, 8, 4, [](int l, int i) { return Position{Group(l) + (i == 0 ? 0 : 8), Member(l)}; },
          [](int l, int) { return Position{Member(l), Group(l)}; }};
}
ProductShape Wide8() {  // m16n8k32, 8 bits
  return {
      16, 8, 32,
      [](int l, int i) {
        const bool upper = i < 4 || (i >= 8 && i < 12);
        return Position{Group(l) + (upper ? 0 : 8), Member(l) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
      },
      [](int l, int i) { return Position{Member(l) * 4 + (i & 3) + (i < 4 ? 0 : 16), Group(l)}; }};
}
ProductShape Short8() {  // m16n8k16, 8 bits
  return {
      16, 8, 16,
      [](int l, int i) { return Position{Group(l) + (i < 4 ? 0 : 8), Member(l) * 4 + (i & 3)}; },
      [](int l, int i) { return Position{Member(l) * 4 + i, Group(l)}; }};
}
ProductShape Small8() {  // m8n8k16, 8 bits
  return {8, 8, 16, [](int l, int i) { return Position{Group(l), Member(l) * 4 + i}; },
          [](int l, int i) { return Position{Member(l) * 4 + i, Group(l)}; }};
}
ProductShape Wide4() {  // m16n8k64, 4 bits
  return {
      16, 8, 64,
      [](int l, int i) {
        const bool upper = i < 8 || (i >= 16 && i < 24);
        return Position{Group(l) + (upper ? 0 : 8), Member(l) * 8 + (i & 7) + (i < 16 ? 0 : 32)};
      },
      [](int l, int i) { return Position{Member(l) * 8 + (i & 7) + (i < 8 ? 0 : 32), Group(l)}; }};
}
ProductShape Small64() {  // m8n8k4, f64
  return {8, 8, 4, [](int l, int) { return Position{Group(l), Member(l)}; },
          [](int l, int) { return Position{Member(l), Group(l)}; }};
}
ProductShape Wide64() {  // m16n8k16, f64
  return {16, 8, 16,
          [](int l, int i) {
            return i % 2 == 0 ? Position{Group(l), i * 2 + Member(l)}
                              : Position{Group(l) + 8, i * 2 - 2 + Member(l)};
          },
          [](int l, int i) { return Position{Member(l) + 4 * i, Group(l)}; }};
}
Position Sum(int lane, int i) {  // the same for 16 and 8 rows
  return {Group(lane) + (i < 2 ? 0 : 8), Member(lane) * 2 + (i & 1)};
}

using IntMatrix = std::vector<std::vector<int>>;
IntMatrix RandomMatrix(Random& random, int rows, int columns, int most, bool is_signed) {
  IntMatrix matrix(static_cast<size_t>(rows), std::vector<int>(static_cast<size_t>(columns)));
  for (auto& row : matrix) {
    for (int& value : row) {
      value = static_cast<int>(random.Below(static_cast<uint64_t>(most) + 1));
      if (is_signed && random.Below(2) != 0) value = -value;
    }
  }
  return matrix;
}

/// A fragment as kernels load it: the registers of 4 (or 8) bytes of each lane.
struct Fragment {
  std::vector<std::byte> bytes;
  int registers = 0;
  int register_bytes = 4;
};
Fragment Pack(const IntMatrix& matrix, const Numbers& format, const Layout& layout) {
  const auto elements = static_cast<int>(matrix.size() * matrix[0].size()) / 32;
  Fragment fragment;
  fragment.register_bytes = format.bits == 64 ? 8 : 4;
  fragment.registers = elements * format.bits / (8 * fragment.register_bytes);
  const int of_register = elements / fragment.registers;
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < fragment.registers; ++r) {
      uint64_t bits = 0;
      for (int e = 0; e < of_register; ++e) {
        const Position at = layout(lane, r * of_register + e);
        const int value = matrix[static_cast<size_t>(at.row)][static_cast<size_t>(at.column)];
        bits |= format.encode(value) << (e * format.bits);
      }
      const auto* from = reinterpret_cast<const std::byte*>(&bits);
      fragment.bytes.insert(fragment.bytes.end(), from, from + fragment.register_bytes);
    }
  }
  return fragment;
}

/// PTX that loads fragments a, b, c by lane, multiplies and stores d. Lanes diverge first.
std::string ProductKernel(const std::string& instruction, const Fragment& a, const Fragment& b,
                          const Fragment& c, const Fragment& d) {
  std::string text = R"(.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {
.reg .pred %p; .reg .b32 %t, %x; .reg .b64 %base<4>;
.reg .b32 %a<16>, %b<16>, %c<16>, %d<16>; .reg .b64 %da<16>, %db<16>, %dc<16>, %dd<16>;
mov.u32 %t, %tid.x;
and.b32 %x, %t, 3; setp.eq.u32 %p, %x, 1; @%p bra ODD; add.u32 %x, %x, 1; bra BOTH;
ODD: add.u32 %x, %x, 2; BOTH:
)";
  std::string operands;
  const Fragment* fragments[] = {&a, &b, &c, &d};
  std::string lists[4];
  std::string stores;
  for (int f = 0; f < 4; ++f) {
    const Fragment& fragment = *fragments[f];
    const char name = static_cast<char>('a' + f);
    const std::string bits = fragment.register_bytes == 8 ? "b64" : "b32";
    const std::string base = "%base" + std::to_string(f);
    text += "ld.param.u64 " + base + ", [p" + name + "];\n";
    text += "mad.wide.u32 " + base + ", %t, " +
            std::to_string(fragment.registers * fragment.register_bytes) + ", " + base + ";\n";
    for (int r = 0; r < fragment.registers; ++r) {
      const std::string reg =
          (fragment.register_bytes == 8 ? "%d" : "%") + std::string(1, name) + std::to_string(r);
      const std::string at = "[" + base + "+" + std::to_string(r * fragment.register_bytes) + "]";
      lists[f] += (r == 0 ? "" : ", ") + reg;
      if (f < 3) {
        text += "ld.global." + bits + " " + reg + ", " + at + ";\n";
      } else {
        stores += "st.global." + bits + " " + at + ", " + reg + ";\n";
      }
    }
  }
  text += instruction + " {" + lists[3] + "}, {" + lists[0] + "}, {" + lists[1] + "}, {" +
          lists[2] + "};\n" + stores + "ret;\n}\n";
  return text;
}

void CheckProduct(const ProductShape& shape, const Numbers& fa, const Numbers& fb,
                  const Numbers& sum, int vector_level) {
  const std::string name =
      "m" + std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k" + std::to_string(shape.k);
  const std::string instruction = "mma.sync.aligned." + name + ".row.col." + sum.name + "." +
                                  fa.name + "." + fb.name + "." + sum.name;
  Random random(7);
  const auto is_signed = [](const Numbers& f) { return f.name[0] != 'u'; };
  const IntMatrix a = RandomMatrix(random, shape.m, shape.k, 3, is_signed(fa));
  const IntMatrix b = RandomMatrix(random, shape.k, shape.n, 3, is_signed(fb));
  const IntMatrix c = RandomMatrix(random, shape.m, shape.n, 100, true);
  IntMatrix d = c;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < c[0].size(); ++j) {
      for (size_t x = 0; x < b.size(); ++x) d[i][j] += a[i][x] * b[x][j];
    }
  }
  const Fragment left = Pack(a, fa, shape.a), right = Pack(b, fb, shape.b);
  const Fragment before = Pack(c, sum, &Sum), expected = Pack(d, sum, &Sum);
  Interpreter run(ProductKernel(instruction, left, right, before, expected), vector_level);
  const uint64_t result = run.Buffer(std::vector<std::byte>(expected.bytes.size()));
  const LaunchOutcome outcome =
      run.Launch("k", {1, 1, 1}, {32, 1, 1}, run.Buffer(left.bytes), run.Buffer(right.bytes),
                 run.Buffer(before.bytes), result);
  ASSERT_TRUE(outcome.completed) << instruction << ": " << Summary(outcome);
  EXPECT_EQ(run.Read<std::byte>(result, expected.bytes.size()), expected.bytes)
      << instruction << " at vector level " << vector_level;
  // Lanes execute none of these operations, so estimates of lane time must not count them.
  EXPECT_EQ(outcome.counters.floating_point_operations, 0u) << instruction;
  EXPECT_GT(outcome.counters.tensor_operations, 0u) << instruction;
}

TEST(MatrixTest, ProductsOfEveryShapeMatchPublishedLayouts) {
  for (int level = 0; level <= VectorLevel(); ++level) {
    for (const Numbers& sum : {kF32, kF16}) {
      CheckProduct(Wide16(), kF16, kF16, sum, level);
      CheckProduct(Short16(), kF16, kF16, sum, level);
      CheckProduct(Wide8(), kE4M3, kE5M2, sum, level);
      CheckProduct(Short8(), kE5M2, kE4M3, sum, level);
    }
    CheckProduct(Wide16(), kBF16, kBF16, kF32, level);
    CheckProduct(Short16(), kBF16, kBF16, kF32, level);
    CheckProduct(Wide32(), kTF32, kTF32, kF32, level);
    CheckProduct(Short32(), kTF32, kTF32, kF32, level);
    CheckProduct(Small64(), kF64, kF64, kF64, level);
    CheckProduct(Wide64(), kF64, kF64, kF64, level);
    CheckProduct(Wide8(), kS8, kU8, kS32, level);
    CheckProduct(Short8(), kU8, kS8, kS32, level);
    CheckProduct(Small8(), kS8, kS8, kS32, level);
    CheckProduct(Wide4(), kS4, kU4, kS32, level);
  }
}

std::string MatrixKernels() {
  std::ifstream file(std::string(CUPEL_SOURCE_DIR) + "/src/emu/testdata/tensor.ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A matrix in memory, row by row or column by column.
template <class T>
std::vector<T> Stored(const IntMatrix& matrix, const Numbers& format, bool by_columns) {
  const size_t rows = matrix.size(), columns = matrix[0].size();
  std::vector<T> out(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      const uint64_t bits = format.encode(matrix[i][j]);
      std::memcpy(&out[by_columns ? j * rows + i : i * columns + j], &bits, sizeof(T));
    }
  }
  return out;
}

template <class In, class Out>
void CheckFragments(Interpreter& run, const std::string& kernel, int m, int n, int k,
                    const Numbers& in, const Numbers& sum) {
  Random random(11);
  const IntMatrix a = RandomMatrix(random, m, k, 3, in.name[0] != 'u');
  const IntMatrix b = RandomMatrix(random, k, n, 3, in.name[0] != 'u');
  const IntMatrix c = RandomMatrix(random, m, n, 100, true);
  IntMatrix d = c;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < c[0].size(); ++j) {
      for (size_t x = 0; x < b.size(); ++x) d[i][j] += 2 * a[i][x] * b[x][j];
    }
  }
  for (int layouts = 0; layouts < 8; ++layouts) {
    const bool by_columns = (layouts & 4) != 0;
    const uint64_t result = run.Buffer(std::vector<Out>(static_cast<size_t>(m * n)));
    const LaunchOutcome outcome =
        run.Launch(kernel, {1, 1, 1}, {32, 1, 1}, run.Buffer(Stored<In>(a, in, (layouts & 1) != 0)),
                   run.Buffer(Stored<In>(b, in, (layouts & 2) != 0)),
                   run.Buffer(Stored<Out>(c, sum, by_columns)), result, layouts);
    ASSERT_TRUE(outcome.completed) << kernel << ": " << Summary(outcome);
    EXPECT_EQ(run.Read<Out>(result, static_cast<size_t>(m * n)), Stored<Out>(d, sum, by_columns))
        << kernel << " with layouts " << layouts;
  }
}

TEST(MatrixTest, WmmaFragmentsAreConsistent) {
  Interpreter run(MatrixKernels());
  CheckFragments<uint16_t, uint32_t>(run, "wmma_f16_f32", 16, 16, 16, kF16, kF32);
  CheckFragments<uint16_t, uint16_t>(run, "wmma_f16_f16", 16, 16, 16, kF16, kF16);
  CheckFragments<uint16_t, uint32_t>(run, "wmma_wide_f16", 8, 32, 16, kF16, kF32);
  CheckFragments<uint16_t, uint16_t>(run, "wmma_tall_f16", 32, 8, 16, kF16, kF16);
  CheckFragments<uint16_t, uint32_t>(run, "wmma_bf16", 16, 16, 16, kBF16, kF32);
  CheckFragments<uint16_t, uint32_t>(run, "wmma_wide_bf16", 8, 32, 16, kBF16, kF32);
  CheckFragments<uint16_t, uint32_t>(run, "wmma_tall_bf16", 32, 8, 16, kBF16, kF32);
  CheckFragments<uint32_t, uint32_t>(run, "wmma_tf32", 16, 16, 8, kTF32, kF32);
  CheckFragments<uint64_t, uint64_t>(run, "wmma_f64", 8, 8, 4, kF64, kF64);
  CheckFragments<uint8_t, uint32_t>(run, "wmma_s8", 16, 16, 16, kS8, kS32);
  CheckFragments<uint8_t, uint32_t>(run, "wmma_wide_u8", 8, 32, 16, kU8, kS32);
  CheckFragments<uint8_t, uint32_t>(run, "wmma_tall_s8", 32, 8, 16, kS8, kS32);
}

TEST(MatrixTest, RejectsPartialWarp) {
  Interpreter run(MatrixKernels());
  const uint64_t buffer = run.Buffer(std::vector<uint32_t>(1024));
  const LaunchOutcome outcome =
      run.Launch("wmma_f16_f32", {1, 1, 1}, {16, 1, 1}, buffer, buffer, buffer, buffer, 0);
  EXPECT_FALSE(outcome.completed);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "inactive_lanes");
}

TEST(MatrixTest, DetectsOutOfBoundsFragment) {
  Interpreter run(MatrixKernels());
  const uint64_t big = run.Buffer(std::vector<uint32_t>(1024));
  const uint64_t small = run.Buffer(std::vector<uint16_t>(255));
  const LaunchOutcome outcome =
      run.Launch("wmma_f16_f32", {1, 1, 1}, {32, 1, 1}, small, big, big, big, 0);
  ASSERT_EQ(outcome.findings.size(), 1u) << Summary(outcome);
  EXPECT_EQ(outcome.findings[0].code, "out_of_bounds");
}

}  // namespace
}  // namespace cupel::emu
