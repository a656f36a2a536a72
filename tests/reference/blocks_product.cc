// Kernels with one to three products of a warpgroup that add to the same accumulators: all types,
// A in registers or shared memory, all swizzles, both directions of 16-bit operands, random
// strides.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "blocks.h"

namespace cupel::reference {
namespace {

constexpr uint32_t kThreads = 128;
constexpr size_t kBytesOfA = 11264, kBytesOfB = 36864, kTile = kBytesOfA + kBytesOfB;

struct Element {
  const char* name;
  int bits;
  const Format* format;  // null for integers
};
constexpr Format kWord{32, 23, 127, true, 0x7fffffff};  // tf32 as it is stored
const Element kElements[] = {{"f16", 16, &kF16},  {"bf16", 16, &kBF16}, {"tf32", 32, &kWord},
                             {"e4m3", 8, &kE4M3}, {"e5m2", 8, &kE5M2},  {"s8", 8, nullptr},
                             {"u8", 8, nullptr},  {"b1", 1, nullptr}};
const Element& Named(const std::string& name) {
  for (const Element& element : kElements) {
    if (element.name == name) return element;
  }
  std::abort();
}

struct Kind {
  std::string d, a, b;
  bool saturates = false;
};

/// One to three products.
class Maker {
 public:
  Maker(const Kind& kind, bool a_in_registers, uint64_t seed)
      : kind_(kind),
        a_(Named(kind.a)),
        b_(Named(kind.b)),
        a_in_registers_(a_in_registers),
        random_(seed) {}

  BlockKernel Make() {
    const bool is_integer = a_.format == nullptr;
    n_ = 8 * (1 + random_.Below(random_.Below(3) == 0 ? 32 : 12));
    if (is_integer && n_ > 24) n_ = n_ / 16 * 16;  // PTX: above 24, multiples of 16
    sums_ = kind_.d == "f16" ? n_ / 4 : n_ / 2;
    BlockKernel kernel;
    kernel.name = fmt::format("wgmma {}.{}.{}{} n {} A in {}", kind_.d, kind_.a, kind_.b,
                              kind_.saturates ? ".satfinite" : "", n_,
                              a_in_registers_ ? "registers" : "shared memory");
    kernel.buffers = {Inputs(), std::vector<std::byte>(sums_ * kThreads * 4)};
    kernel.text = BlockHead(2, 0) + fmt::format(
                                        ".reg .b32 %d<{}>, %a<4>;\n.reg .b64 %of_a, %of_b;\n"
                                        ".shared .align 1024 .b8 tile[{}];\n",
                                        sums_, kTile);
    kernel.text += CopyIn("%b0", "tile", kTile, kThreads);
    kernel.text += "fence.proxy.async;\nbar.sync 0;\nmul.wide.u32 %y0, %t, 4;\n";
    kernel.text += "add.s64 %b0, %b0, %y0;\nadd.s64 %b1, %b1, %y0;\n";
    for (size_t i = 0; i < 4; ++i) {
      kernel.text += fmt::format("ld.global.b32 %a{}, [%b0+{}];\n", i, kTile + 512 * i);
    }
    for (size_t i = 0; i < sums_; ++i) {
      kernel.text += fmt::format("ld.global.b32 %d{}, [%b0+{}];\n", i, kTile + 512 * (i + 4));
    }
    kernel.text += "wgmma.fence.sync.aligned;\n";
    const uint64_t products = 1 + random_.Below(3);
    for (uint64_t i = 0; i < products; ++i) {
      kernel.text += Product(&kernel.name);
      if (random_.Below(2) == 0) kernel.text += "wgmma.commit_group.sync.aligned;\n";
    }
    kernel.text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    for (size_t i = 0; i < sums_; ++i) {
      kernel.text += fmt::format("st.global.b32 [%b1+{}], %d{};\n", 512 * i, i);
    }
    kernel.text += "ret;\n}\n";
    return kernel;
  }

 private:
  /// Numbers whose sums are exact in every order and precision.
  uint64_t Value(const Element& element) {
    if (element.format == nullptr) return random_();
    const bool narrow = kind_.d == "f16" || element.bits == 8;
    const int most = kind_.d == "f16" ? 2 : 3;
    const int value = static_cast<int>(random_.Below(static_cast<uint64_t>(2 * most + 1))) - most;
    return SmallFloat(value, narrow ? 0 : static_cast<int>(random_.Below(3)) - 1, *element.format);
  }
  void Fill(const Element& element, std::byte* to, size_t bytes) {
    const size_t size = element.bits < 8 ? 1 : static_cast<size_t>(element.bits) / 8;
    for (size_t at = 0; at < bytes; at += size) {
      const uint64_t value = Value(element);
      std::memcpy(to + at, &value, size);
    }
  }
  uint32_t Accumulator() {
    const auto small = [&] { return static_cast<int>(random_.Below(101)) - 50; };
    if (kind_.d == "f32") return static_cast<uint32_t>(SmallFloat(small(), 0, kF32));
    if (kind_.d == "f16") {
      return static_cast<uint32_t>(SmallFloat(small(), 0, kF16) | SmallFloat(small(), 0, kF16)
                                                                      << 16);
    }
    if (!kind_.saturates) return static_cast<uint32_t>(random_());
    // Only sums of positive products saturate in the same way in every order.
    const bool is_positive = kind_.a == "u8" && kind_.b == "u8";
    return is_positive ? 0x7fffffffu - static_cast<uint32_t>(random_.Below(1'000'000))
                       : static_cast<uint32_t>(random_.Below(2'000'000)) - 1'000'000u;
  }
  /// The tile, A's registers, the accumulators.
  std::vector<std::byte> Inputs() {
    const size_t words = (4 + sums_) * kThreads;
    std::vector<std::byte> bytes(kTile + 4 * words);
    Fill(a_, bytes.data(), kBytesOfA);
    Fill(b_, bytes.data() + kBytesOfA, kBytesOfB);
    Fill(a_, bytes.data() + kTile, size_t{4} * kThreads * 4);
    for (size_t i = 4 * kThreads; i < words; ++i) {
      const uint32_t word = Accumulator();
      std::memcpy(bytes.data() + kTile + 4 * i, &word, 4);
    }
    return bytes;
  }

  /// Computes a descriptor of a random layout.
  std::string Descriptor(const std::string& to, size_t region, bool transposed, std::string* name) {
    const uint64_t mode = random_.Below(4), width = std::array<uint64_t, 4>{0, 128, 64, 32}[mode];
    // Up to 1024 bytes, so that the last line is inside the region.
    const auto stride = [&] { return 1 + random_.Below(random_.Below(2) == 0 ? 64 : 8); };
    uint64_t leading = stride(), other = stride(), start = 16 * random_.Below(8), base = 0;
    if (width != 0) {
      // Whole repetitions of the pattern, or a start within it.
      start = random_.Below(2) * 8 * width;
      if (random_.Below(3) == 0) other = 8 * width / 16;
      if (random_.Below(3) == 0) {
        base = random_.Below(width / 16);
        start += 128 * base;
      } else if (!transposed) {
        start += 32 * random_.Below(width / 32);
      }
    }
    const uint64_t bits = leading << 16 | other << 32 | base << 49 | mode << 62;
    *name += fmt::format(" [swizzle {} lbo {} sbo {} start {} base {}{}]", width, 16 * leading,
                         16 * other, start, base, transposed ? " transposed" : "");
    return fmt::format(
        "mov.u32 %x0, tile;\nadd.u32 %x0, %x0, {};\nshr.u32 %x0, %x0, 4;\n"
        "and.b32 %x0, %x0, 0x3fff;\ncvt.u64.u32 {}, %x0;\nor.b64 {}, {}, {:#x};\n",
        region + start, to, to, to, bits);
  }

  std::string Product(std::string* name) {
    const bool is_integer = a_.format == nullptr, may_transpose = a_.bits == 16;
    const bool transposes_a = may_transpose && !a_in_registers_ && random_.Below(2) == 0;
    const bool transposes_b = may_transpose && random_.Below(2) == 0;
    std::string text;
    if (!a_in_registers_) text += Descriptor("%of_a", 0, transposes_a, name);
    text += Descriptor("%of_b", kBytesOfA, transposes_b, name);
    text +=
        fmt::format("mov.u32 %x1, {};\nsetp.ne.u32 %q, %x1, 0;\n", random_.Below(4) == 0 ? 0 : 1);
    std::string sums;
    for (size_t i = 0; i < sums_; ++i) sums += fmt::format("{}%d{}", i == 0 ? "" : ", ", i);
    text += fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{}{} {{{}}}, {}, %of_b, %q",
                        n_, 256 / a_.bits, kind_.saturates ? ".satfinite" : "", kind_.d, kind_.a,
                        kind_.b, a_.bits == 1 ? ".and.popc" : "", sums,
                        a_in_registers_ ? "{%a0, %a1, %a2, %a3}" : "%of_a");
    if (!is_integer) {
      const auto scale = [&] { return random_.Below(3) == 0 ? -1 : 1; };
      const int first = scale(), second = scale();
      text += fmt::format(", {}, {}", first, second);
    }
    if (may_transpose && !a_in_registers_) text += transposes_a ? ", 1" : ", 0";
    if (may_transpose) text += transposes_b ? ", 1" : ", 0";
    return text + ";\n";
  }

  Kind kind_;
  Element a_, b_;
  bool a_in_registers_;
  Random random_;
  size_t n_ = 8, sums_ = 4;
};

}  // namespace

std::vector<BlockKernel> ProductKernels() {
  std::vector<Kind> kinds = {{"f32", "f16", "f16"},
                             {"f16", "f16", "f16"},
                             {"f32", "bf16", "bf16"},
                             {"f32", "tf32", "tf32"},
                             {"s32", "b1", "b1"}};
  for (const char* d : {"f32", "f16"}) {
    for (const char* a : {"e4m3", "e5m2"}) {
      for (const char* b : {"e4m3", "e5m2"}) kinds.push_back({d, a, b});
    }
  }
  for (const bool saturates : {false, true}) {
    for (const char* a : {"s8", "u8"}) {
      for (const char* b : {"s8", "u8"}) kinds.push_back({"s32", a, b, saturates});
    }
  }
  std::vector<BlockKernel> kernels;
  uint64_t seed = 0;
  for (const Kind& kind : kinds) {
    const uint64_t count = kind.a == "f16" || kind.a == "bf16" ? 8 : 3;
    for (const bool in_registers : {false, true}) {
      for (uint64_t i = 0; i < count; ++i) {
        kernels.push_back(Maker(kind, in_registers, ++seed).Make());
      }
    }
  }
  return kernels;
}

}  // namespace cupel::reference
