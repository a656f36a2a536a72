// Kernels with one to three products of a warpgroup that add to the same accumulators: all types,
// A in registers or shared memory, all swizzles, both directions of 16-bit operands, random
// strides, dense and sparse; and products of a warp (mma), dense and sparse.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
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
                             {"u8", 8, nullptr},  {"s4", 4, nullptr},   {"u4", 4, nullptr},
                             {"b1", 1, nullptr}};
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

/// The operands of a kind of products.
class Values {
 public:
  Values(Kind kind, uint64_t seed)
      : kind_(std::move(kind)), a_(Named(kind_.a)), b_(Named(kind_.b)), random_(seed) {}

 protected:
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
  /// Metadata of a sparse A: two of four indices in ascending order; for tf32 the first or the
  /// second half of them.
  uint32_t Metadata() {
    static constexpr uint32_t kPairs[] = {4, 14, 8, 12, 9, 13};
    uint32_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 4 | kPairs[random_.Below(a_.bits == 32 ? 2 : 6)];
    return word;
  }

  Kind kind_;
  Element a_, b_;
  Random random_;
};

/// One to three products.
class Maker : Values {
 public:
  Maker(const Kind& kind, bool a_in_registers, bool is_sparse, uint64_t seed)
      : Values(kind, seed), a_in_registers_(a_in_registers), is_sparse_(is_sparse) {}

  BlockKernel Make() {
    const bool is_integer = a_.format == nullptr;
    n_ = 8 * (1 + random_.Below(random_.Below(3) == 0 ? 32 : 12));
    if (is_integer && n_ > 24) n_ = n_ / 16 * 16;  // PTX: above 24, multiples of 16
    sums_ = kind_.d == "f16" ? n_ / 4 : n_ / 2;
    BlockKernel kernel;
    kernel.name = fmt::format("wgmma{} {}.{}.{}{} n {} A in {}", is_sparse_ ? ".sp" : "", kind_.d,
                              kind_.a, kind_.b, kind_.saturates ? ".satfinite" : "", n_,
                              a_in_registers_ ? "registers" : "shared memory");
    kernel.buffers = {Inputs(), std::vector<std::byte>(sums_ * kThreads * 4)};
    kernel.text = BlockHead(2, 0) + fmt::format(
                                        ".reg .b32 %d<{}>, %a<4>, %e;\n.reg .b64 %of_a, %of_b;\n"
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
    kernel.text += fmt::format("ld.global.b32 %e, [%b0+{}];\n", kTile + 512 * (sums_ + 4));
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
  /// The tile, A's registers, the accumulators, the metadata.
  std::vector<std::byte> Inputs() {
    const size_t words = (4 + sums_ + 1) * kThreads;
    std::vector<std::byte> bytes(kTile + 4 * words);
    Fill(a_, bytes.data(), kBytesOfA);
    Fill(b_, bytes.data() + kBytesOfA, kBytesOfB);
    Fill(a_, bytes.data() + kTile, size_t{4} * kThreads * 4);
    for (size_t i = 4 * kThreads; i < words; ++i) {
      const uint32_t word = i < words - kThreads ? Accumulator() : Metadata();
      std::memcpy(bytes.data() + kTile + 4 * i, &word, 4);
    }
    return bytes;
  }

  /// Computes a descriptor of a random layout.
  std::string Descriptor(const std::string& to, size_t region, bool transposed, uint64_t depth,
                         std::string* name) {
    // A line of `depth` bytes that is not transposed must fit into the width of the swizzle.
    const uint64_t mode = random_.Below(depth > 32 && !transposed ? 3 : 4),
                   width = std::array<uint64_t, 4>{0, 128, 64, 32}[mode];
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
        start += 32 * random_.Below((width - depth) / 32 + 1);
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
    if (!a_in_registers_) text += Descriptor("%of_a", 0, transposes_a, 32, name);
    text += Descriptor("%of_b", kBytesOfA, transposes_b, is_sparse_ ? 64 : 32, name);
    text +=
        fmt::format("mov.u32 %x1, {};\nsetp.ne.u32 %q, %x1, 0;\n", random_.Below(4) == 0 ? 0 : 1);
    std::string sums;
    for (size_t i = 0; i < sums_; ++i) sums += fmt::format("{}%d{}", i == 0 ? "" : ", ", i);
    std::string metadata;
    if (is_sparse_) metadata = fmt::format("%e, {}, ", a_.bits >= 16 ? random_.Below(2) : 0);
    text +=
        fmt::format("wgmma.mma_async{}.sync.aligned.m64n{}k{}{}.{}.{}.{}{} {{{}}}, {}, %of_b, {}%q",
                    is_sparse_ ? ".sp" : "", n_, (is_sparse_ ? 512 : 256) / a_.bits,
                    kind_.saturates ? ".satfinite" : "", kind_.d, kind_.a, kind_.b,
                    a_.bits == 1 ? ".and.popc" : "", sums,
                    a_in_registers_ ? "{%a0, %a1, %a2, %a3}" : "%of_a", metadata);
    if (!is_integer) {
      const auto scale = [&] { return random_.Below(3) == 0 ? -1 : 1; };
      const int first = scale(), second = scale();
      text += fmt::format(", {}, {}", first, second);
    }
    if (may_transpose && !a_in_registers_) text += transposes_a ? ", 1" : ", 0";
    if (may_transpose) text += transposes_b ? ", 1" : ", 0";
    return text + ";\n";
  }

  bool a_in_registers_, is_sparse_;
  size_t n_ = 8, sums_ = 4;
};

/// A product of a warp: mma.m16n8, with the operands in registers.
class WarpMaker : Values {
 public:
  /// `depth`: bytes of a row of A that are in registers, 16 or 32.
  WarpMaker(const Kind& kind, int depth, bool is_sparse, uint64_t seed)
      : Values(kind, seed), depth_(static_cast<size_t>(depth)), is_sparse_(is_sparse) {}

  BlockKernel Make() {
    const size_t of_a = depth_ / 8, of_b = depth_ / 16 * (is_sparse_ ? 2 : 1);
    const size_t sums = kind_.d == "f16" ? 2 : 4,
                 columns = depth_ * 8 / a_.bits * (is_sparse_ ? 2 : 1);
    const uint64_t selectors = 64 / depth_ / (a_.bits >= 16 ? 1 : 2);
    const uint64_t selector = random_.Below(selectors);
    const std::string shape =
        fmt::format("m16n8k{}.row.col{}.{}.{}.{}.{}", columns, kind_.saturates ? ".satfinite" : "",
                    kind_.d, kind_.a, kind_.b, kind_.d);
    const char* const kinds[] = {".sp::ordered_metadata", ".sp"};
    const std::string name =
        fmt::format("mma{}.sync.aligned.{}", is_sparse_ ? kinds[random_.Below(2)] : "", shape);
    BlockKernel kernel;
    kernel.name = name + fmt::format(" selector {}", selector);
    kernel.block = 32;
    std::vector<std::byte> inputs((of_a + of_b + sums + 1) * 128);
    Fill(a_, inputs.data(), of_a * 128);
    Fill(b_, inputs.data() + of_a * 128, of_b * 128);
    for (size_t i = (of_a + of_b) * 32; i < inputs.size() / 4; ++i) {
      const uint32_t word = i < inputs.size() / 4 - 32 ? Accumulator() : Metadata();
      std::memcpy(inputs.data() + 4 * i, &word, 4);
    }
    kernel.buffers = {inputs, std::vector<std::byte>(sums * 128)};
    kernel.text = BlockHead(2, 0) +
                  ".reg .b32 %a<4>, %c<4>, %d<4>, %f<4>, %e;\nmul.wide.u32 %y0, %t, 4;\n"
                  "add.s64 %b0, %b0, %y0;\nadd.s64 %b1, %b1, %y0;\n";
    size_t next = 0;
    const auto load = [&](char role, size_t count) {
      std::string list;
      for (size_t i = 0; i < count; ++i) {
        kernel.text += fmt::format("ld.global.b32 %{}{}, [%b0+{}];\n", role, i, 128 * next++);
        list += fmt::format("{}%{}{}", i == 0 ? "" : ", ", role, i);
      }
      return "{" + list + "}";
    };
    const std::string a = load('a', of_a), b = load('f', of_b), c = load('c', sums);
    kernel.text += fmt::format("ld.global.b32 %e, [%b0+{}];\n", 128 * next);
    kernel.text += fmt::format("{} {}, {}, {}, {}{};\n", name,
                               sums == 2 ? "{%d0, %d1}" : "{%d0, %d1, %d2, %d3}", a, b, c,
                               is_sparse_ ? fmt::format(", %e, {}", selector) : "");
    for (size_t i = 0; i < sums; ++i) {
      kernel.text += fmt::format("st.global.b32 [%b1+{}], %d{};\n", 128 * i, i);
    }
    kernel.text += "ret;\n}\n";
    return kernel;
  }

 private:
  size_t depth_;
  bool is_sparse_;
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
        kernels.push_back(Maker(kind, in_registers, false, ++seed).Make());
        if (kind.a == "b1") continue;
        kernels.push_back(Maker(kind, in_registers, true, 10'000 + seed).Make());
      }
    }
  }
  for (const char* a : {"s4", "u4"}) {
    for (const char* b : {"s4", "u4"}) kinds.push_back({"s32", a, b});
  }
  seed = 20'000;
  for (const Kind& kind : kinds) {
    // fp8 exists with f32 on all GPUs that have it; b1 has another form; the order of sums decides
    // what saturates.
    const bool is_fp8 = Named(kind.a).bits == 8 && Named(kind.a).format != nullptr;
    if (kind.a == "b1" || kind.saturates || (is_fp8 && kind.d == "f16")) continue;
    for (const int depth : {16, 32}) {
      if (is_fp8 && depth == 16) continue;
      kernels.push_back(WarpMaker(kind, depth, false, ++seed).Make());
      for (int i = 0; i < 4; ++i) kernels.push_back(WarpMaker(kind, depth, true, ++seed).Make());
    }
  }
  return kernels;
}

}  // namespace cupel::reference
