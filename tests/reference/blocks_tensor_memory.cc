// Kernels with tcgen05: one to three products that add to the same part of tensor memory (all
// kinds, A in shared or tensor memory, all swizzles, both directions, 64 and 128 lines), and moves
// between registers, shared memory and tensor memory in all shapes.
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

constexpr uint32_t kThreads = 128, kColumns = 512;
constexpr size_t kBytesOfA = 13312, kBytesOfB = 34816, kTile = kBytesOfA + kBytesOfB;

struct TensorKind {
  std::string kind;  // "f16"
  uint32_t d = 1, a = 0, b = 0;
  bool saturates = false;
  uint32_t scales = 0;  // of a line; 0: no block scales

  bool is_narrow(uint32_t type) const { return kind.starts_with("mxf4") || (is_f8() && type > 1); }
  bool is_f8() const { return kind.ends_with("f8f6f4"); }
  bool is_integer() const { return kind == "i8"; }
  uint32_t bytes() const { return kind == "tf32" ? 4 : kind == "f16" ? 2 : 1; }
};

/// What all kernels begin and end with. %la is the address of the warp's first lane.
std::string Begin(uint32_t registers) {
  return BlockHead(2, 0, "", "sm_100a") +
         fmt::format(
             ".reg .b32 %d<{}>, %la, %ta, %c, %idesc, %z<4>;\n.reg .b64 %of_a, %of_b;\n"
             ".shared .align 1024 .b8 tile[{}];\n.shared .align 8 .b64 done;\n"
             ".shared .align 4 .b32 address;\n",
             registers, kTile) +
         CopyIn("%b0", "tile", kTile, kThreads) +
         "setp.ne.u32 %p, %t, 0;\n@%p bra INIT_END;\n"
         "mbarrier.init.shared::cta.b64 [done], 1;\nINIT_END:\n"
         "setp.ge.u32 %p, %t, 32;\n@%p bra ALLOC_END;\n"
         "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [address], 512;\n"
         "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nALLOC_END:\n"
         "fence.proxy.async;\nbar.sync 0;\nld.shared.b32 %ta, [address];\n"
         "shr.u32 %la, %t, 5;\nshl.b32 %la, %la, 21;\nadd.u32 %la, %la, %ta;\n"
         "mul.wide.u32 %y0, %t, 4;\nadd.s64 %b0, %b0, %y0;\nadd.s64 %b1, %b1, %y0;\n";
}
std::string End() {
  return "tcgen05.fence::before_thread_sync;\nbar.sync 0;\nsetp.ge.u32 %p, %t, 32;\n"
         "@%p bra FREE_END;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %ta, 512;\nFREE_END:\n"
         "ret;\n}\n";
}
/// Thread 0 executes `text`; all threads wait until it is complete.
std::string ByOneThread(const std::string& text, uint32_t phase) {
  return fmt::format(
             "tcgen05.fence::before_thread_sync;\nbar.sync 0;\nsetp.ne.u32 %p, %t, 0;\n"
             "@%p bra ONE_{0}_END;\ntcgen05.fence::after_thread_sync;\n{1}"
             "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\n"
             "ONE_{0}_END:\n",
             phase, text) +
         WaitFor("done", std::to_string(phase), fmt::format("WAIT_{}", phase)) +
         "tcgen05.fence::after_thread_sync;\n";
}
std::string Registers(uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}%d{}", i ? ", " : "", first + i);
  return text + "}";
}
/// A loop that fills all lanes of columns [0, columns) from the buffer's words behind the tile.
std::string FillColumns(uint32_t columns) {
  std::string text = "mov.u32 %c, 0;\nmov.b64 %y1, %b0;\nFILL:\n";
  for (uint32_t i = 0; i < 8; ++i) {
    text += fmt::format("ld.global.b32 %d{}, [%y1+{}];\n", i, kTile + 4 * kThreads * i);
  }
  return text + fmt::format(
                    "add.u32 %x4, %la, %c;\n"
                    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%x4], {};\n"
                    "add.s64 %y1, %y1, {};\nadd.u32 %c, %c, 8;\nsetp.lt.u32 %p, %c, {};\n"
                    "@%p bra FILL;\ntcgen05.wait::st.sync.aligned;\n",
                    Registers(0, 8), 4 * kThreads * 8, columns);
}

/// A descriptor of a random layout of matrices whose elements have `bytes` bytes.
std::string Descriptor(Random& random, const std::string& to, size_t region, bool transposed,
                       uint32_t bytes, std::string* name) {
  const bool has_larger_atom = transposed && bytes == 4;
  const uint64_t mode = has_larger_atom ? 1 : 2 * random.Below(4);
  const uint64_t width = std::array<uint64_t, 7>{0, 128, 128, 0, 64, 0, 32}[mode];
  const auto stride = [&] { return 1 + random.Below(random.Below(2) == 0 ? 40 : 8); };
  uint64_t leading = stride(), other = stride(), start = 16 * random.Below(8), base = 0;
  if (width != 0) {
    // Whole repetitions of the pattern, or a start within it.
    start = random.Below(2) * 8 * width;
    if (random.Below(3) == 0) other = (has_larger_atom ? 4 : 8) * width / 16;
    if (random.Below(3) == 0) {
      base = random.Below(has_larger_atom ? 4 : width / 16);
      start += 128 * base;
    } else if (!transposed) {
      start += 32 * random.Below(width / 32);
    }
  }
  const uint64_t bits = leading << 16 | other << 32 | uint64_t{1} << 46 | base << 49 | mode << 61;
  *name += fmt::format(" [swizzle {} lbo {} sbo {} start {} base {}{}]", width, 16 * leading,
                       16 * other, start, base, transposed ? " transposed" : "");
  return fmt::format(
      "mov.u32 %x0, tile;\nadd.u32 %x0, %x0, {};\nshr.u32 %x0, %x0, 4;\n"
      "and.b32 %x0, %x0, 0x3fff;\ncvt.u64.u32 {}, %x0;\nor.b64 {}, {}, {:#x};\n",
      region + start, to, to, to, bits);
}

/// One to three products.
class ProductMaker {
 public:
  ProductMaker(const TensorKind& kind, bool a_in_tensor_memory, uint64_t seed)
      : kind_(kind), a_in_tensor_memory_(a_in_tensor_memory), random_(seed) {}

  BlockKernel Make() {
    m_ = random_.Below(2) == 0 && kind_.scales == 0 ? 64 : 128;
    n_ = 16 * static_cast<uint32_t>(1 + random_.Below(random_.Below(6) == 0 ? 16 : 5));
    const bool is_fine = m_ == 64 ? !kind_.is_integer() || n_ <= 32 : kind_.scales != 0;
    if (is_fine && random_.Below(2) == 0) n_ -= 8;
    first_lane_ = m_ == 64 ? 16 * static_cast<uint32_t>(random_.Below(2)) : 0;
    of_d_ = 8 * static_cast<uint32_t>(random_.Below(3));
    BlockKernel kernel;
    kernel.name =
        fmt::format("tcgen05.mma {}{} types {} {} {} m {} n {} lane {} A in {}", kind_.kind,
                    kind_.saturates ? ".satfinite" : "", kind_.d, kind_.a, kind_.b, m_, n_,
                    first_lane_, a_in_tensor_memory_ ? "tensor memory" : "shared memory");
    // D's columns, then 8 of A.
    kernel.buffers = {Inputs(), std::vector<std::byte>(size_t{n_} * kThreads * 4)};
    kernel.text = Begin(8) + FillColumns(Columns());
    std::string products;
    const uint64_t count = 1 + random_.Below(3);
    for (uint64_t i = 0; i < count; ++i) products += Product(&kernel.name);
    kernel.text += ByOneThread(products, 0) + Results() + End();
    return kernel;
  }

 private:
  uint32_t OfLeft() const { return of_d_ + n_; }
  uint32_t OfScales() const { return OfLeft() + 8; }  // 4 columns for A, and then for B
  uint32_t Columns() const { return OfScales() + (kind_.scales != 0 ? 16 : 0); }

  /// Numbers whose sums are exact in every order and precision.
  uint64_t Value(uint32_t type) {
    if (kind_.is_integer() || kind_.is_narrow(type)) return random_();
    static constexpr Format kWord{32, 23, 127, true, 0x7fffffff};  // tf32 as it is stored
    const Format& format = kind_.kind == "tf32"  ? kWord
                           : kind_.kind == "f16" ? (type == 0 ? kF16 : kBF16)
                                                 : (type == 0 ? kE4M3 : kE5M2);
    const int most = kind_.d == 0 ? 2 : 3;
    const int value = static_cast<int>(random_.Below(static_cast<uint64_t>(2 * most + 1))) - most;
    return SmallFloat(value, 0, format);
  }
  void Fill(uint32_t type, std::byte* to, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kind_.bytes()) {
      const uint64_t value = Value(type);
      std::memcpy(to + at, &value, kind_.bytes());
    }
  }
  uint32_t Accumulator() {
    const auto small = [&] { return static_cast<int>(random_.Below(101)) - 50; };
    if (kind_.d == 1) return static_cast<uint32_t>(SmallFloat(small(), 0, kF32));
    if (kind_.d == 0) return static_cast<uint32_t>(SmallFloat(small(), 0, kF16));
    if (!kind_.saturates) return static_cast<uint32_t>(random_());
    // Only sums of positive products saturate in the same way in every order.
    const bool is_positive = kind_.a == 0 && kind_.b == 0;
    return is_positive ? 0x7fffffffu - static_cast<uint32_t>(random_.Below(1'000'000))
                       : static_cast<uint32_t>(random_.Below(2'000'000)) - 1'000'000u;
  }
  std::vector<std::byte> Inputs() {
    const size_t words = size_t{Columns()} * kThreads, of_left = size_t{OfLeft()} * kThreads;
    const size_t of_scales = size_t{OfScales()} * kThreads;
    std::vector<std::byte> bytes(kTile + 4 * words);
    Fill(kind_.a, bytes.data(), kBytesOfA);
    Fill(kind_.b, bytes.data() + kBytesOfA, kBytesOfB);
    for (size_t i = 0; i < of_left; ++i) {
      const uint32_t word = Accumulator();
      std::memcpy(bytes.data() + kTile + 4 * i, &word, 4);
    }
    Fill(kind_.a, bytes.data() + kTile + 4 * of_left, 4 * (of_scales - of_left));
    // Each quarter of the lanes has the same factors.
    for (size_t i = 4 * of_scales; i < 4 * words; ++i) {
      std::byte& byte = bytes[kTile + i];
      byte = i / 4 % kThreads < 32 ? Factor() : bytes[kTile + i - 4 * 32];
    }
    return bytes;
  }
  std::byte Factor() {
    static constexpr uint8_t kPowers[] = {126, 127, 128}, kFloats[] = {0x30, 0x38, 0x3c, 0x40};
    const bool is_float = kind_.kind == "mxf4nvf4";
    return std::byte{is_float ? kFloats[random_.Below(4)] : kPowers[random_.Below(3)]};
  }

  std::string Product(std::string* name) {
    const bool transposes_a =
        !a_in_tensor_memory_ && !kind_.is_narrow(kind_.a) && random_.Below(2) == 0;
    const bool transposes_b = !kind_.is_narrow(kind_.b) && random_.Below(2) == 0;
    const auto negates = [&] { return !kind_.is_integer() && random_.Below(3) == 0 ? 1u : 0u; };
    std::string text;
    if (!a_in_tensor_memory_) {
      text += Descriptor(random_, "%of_a", 0, transposes_a, kind_.bytes(), name);
    }
    text += Descriptor(random_, "%of_b", kBytesOfA, transposes_b, kind_.bytes(), name);
    const auto byte = [&] {
      return static_cast<uint32_t>(random_.Below(4)) / kind_.scales * kind_.scales;
    };
    const uint32_t of_d =
        kind_.scales == 0 ? kind_.d << 4
                          : byte() << 4 | byte() << 29 | uint32_t{kind_.kind != "mxf4nvf4"} << 23;
    const uint32_t instruction = uint32_t{kind_.saturates} << 3 | of_d | kind_.a << 7 |
                                 kind_.b << 10 | negates() << 13 | negates() << 14 |
                                 uint32_t{transposes_a} << 15 | uint32_t{transposes_b} << 16 |
                                 n_ / 8 << 17 | m_ / 16 << 24;
    text += fmt::format(
        "mov.u32 %idesc, {:#x};\nadd.u32 %x2, %ta, {};\nadd.u32 %x3, %ta, {};\n"
        "mov.u32 %x1, {};\nsetp.ne.u32 %q, %x1, 0;\n",
        instruction, (first_lane_ << 16) + of_d_, (first_lane_ << 16) + of_d_ + n_,
        random_.Below(4) == 0 ? 0 : 1);
    std::string disabled;
    if (kind_.scales != 0) {
      text +=
          fmt::format("add.u32 %z0, %ta, {};\nadd.u32 %z1, %ta, {};\n", OfScales(), OfScales() + 4);
      disabled = ", [%z0], [%z1]";
    } else if (random_.Below(3) == 0) {
      for (uint32_t i = 0; i < 4; ++i) {
        text += fmt::format("mov.u32 %z{}, {:#x};\n", i, static_cast<uint32_t>(random_()));
      }
      disabled = ", {%z0, %z1, %z2, %z3}";
    }
    const bool scales =
        kind_.d == 1 && (kind_.kind == "f16" || kind_.kind == "tf32") && random_.Below(3) == 0;
    return text +
           fmt::format(
               "tcgen05.mma.cta_group::1.kind::{}{} [%x2], {}, %of_b, %idesc{}, %q{};\n",
               kind_.kind,
               kind_.scales == 0 ? "" : fmt::format(".block_scale.scale_vec::{}X", kind_.scales),
               a_in_tensor_memory_ ? "[%x3]" : "%of_a", disabled,
               scales ? fmt::format(", {}", random_.Below(3)) : "");
  }

  /// Stores D, 8 columns at a time, read in a random shape.
  std::string Results() {
    static const char* const kShapes[] = {"32x32b.x8", "16x64b.x4", "16x128b.x2", "16x256b.x1",
                                          "16x32bx2.x4"};
    std::string text = fmt::format("mov.u32 %c, 0;\nadd.u32 %la, %la, {};\nRESULT:\n", of_d_);
    text += "add.u32 %x4, %la, %c;\n";
    const uint64_t shape = random_.Below(5);
    const auto load = [&](const std::string& registers, const char* address) {
      return fmt::format("tcgen05.ld.sync.aligned.{}.b32 {}, [{}]{};\n", kShapes[shape], registers,
                         address, shape == 4 ? ", 4" : "");
    };
    if (shape == 0) {
      text += load(Registers(0, 8), "%x4");
    } else {
      text += "add.u32 %x5, %x4, 0x100000;\n";
      text += load(Registers(0, 4), "%x4") + load(Registers(4, 4), "%x5");
    }
    text += "tcgen05.wait::ld.sync.aligned;\n";
    for (uint32_t i = 0; i < 8; ++i) {
      text += fmt::format("st.global.b32 [%b1+{}], %d{};\n", 4 * kThreads * i, i);
    }
    return text + fmt::format(
                      "add.s64 %b1, %b1, {};\nadd.u32 %c, %c, 8;\nsetp.lt.u32 %p, %c, {};\n"
                      "@%p bra RESULT;\n",
                      4 * kThreads * 8, n_);
  }

  TensorKind kind_;
  bool a_in_tensor_memory_;
  Random random_;
  uint32_t m_ = 128, n_ = 16, first_lane_ = 0, of_d_ = 0;
};

struct MoveShape {
  const char* name;
  uint32_t lanes, registers, columns;  // of .x1
};
constexpr MoveShape kMoveShapes[] = {{"32x32b", 32, 1, 1},
                                     {"16x64b", 16, 1, 2},
                                     {"16x128b", 16, 2, 4},
                                     {"16x256b", 16, 4, 8},
                                     {"16x32bx2", 16, 1, 2}};

/// A load or store of up to 128 registers, of random columns.
std::string RandomMove(Random& random, bool store, std::string* name, uint32_t* registers) {
  const MoveShape& shape = kMoveShapes[random.Below(5)];
  const bool packs = random.Below(2) == 0, has_split = shape.columns == 2 && shape.name[3] == '3';
  uint32_t repeats = 1u << random.Below(8);
  while (repeats * shape.registers > 128 || repeats * shape.columns * (packs ? 2 : 1) > kColumns) {
    repeats /= 2;
  }
  *registers = repeats * shape.registers;
  const uint32_t columns = repeats * shape.columns * (packs ? 2 : 1);
  const uint32_t column = static_cast<uint32_t>(random.Below(kColumns - columns + 1));
  const uint32_t lane = shape.lanes == 16 ? 16 * static_cast<uint32_t>(random.Below(2)) : 0;
  const std::string what = fmt::format("{}.x{}{}", shape.name, repeats,
                                       packs ? (store ? ".unpack::16b" : ".pack::16b") : "");
  *name += fmt::format(" {} {} at {}+{}", store ? "st" : "ld", what, lane, column);
  const std::string split = has_split ? fmt::format(", {}", columns / 2) : "";
  const std::string address = fmt::format("add.u32 %x4, %la, {};\n", (lane << 16) + column);
  const std::string list = Registers(0, *registers);
  return address + (store ? fmt::format("tcgen05.st.sync.aligned.{}.b32 [%x4]{}, {};\n"
                                        "tcgen05.wait::st.sync.aligned;\n",
                                        what, split, list)
                          : fmt::format("tcgen05.ld.sync.aligned.{}.b32 {}, [%x4]{};\n"
                                        "tcgen05.wait::ld.sync.aligned;\n",
                                        what, list, split));
}

std::string RandomCopy(Random& random, std::string* name) {
  static const char* const kShapes[] = {
      "128x256b",      "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23",
      "32x128b.warpx4"};
  const uint64_t shape = random.Below(6);
  const uint64_t lane = shape == 1 ? random.Below(32) : 0, column = random.Below(kColumns - 7);
  *name += fmt::format(" cp {} to {}+{}", kShapes[shape], lane, column);
  return Descriptor(random, "%of_a", 0, false, 1, name) +
         fmt::format("add.u32 %x4, %ta, {};\ntcgen05.cp.cta_group::1.{} [%x4], %of_a;\n",
                     (lane << 16) + column, kShapes[shape]);
}

/// Fills tensor memory, copies to it from shared memory, stores, and loads.
BlockKernel MoveKernel(uint64_t seed) {
  Random random(seed);
  BlockKernel kernel;
  kernel.name = "tcgen05";
  kernel.buffers = {RandomBytes(kTile + 4 * kThreads * kColumns, random),
                    std::vector<std::byte>(size_t{128} * kThreads * 4)};
  kernel.text = Begin(128) + FillColumns(kColumns);
  std::string copies;
  for (uint64_t i = random.Below(3); i > 0; --i) copies += RandomCopy(random, &kernel.name);
  if (!copies.empty()) kernel.text += ByOneThread(copies, 0);
  uint32_t registers = 0;
  std::string move = RandomMove(random, true, &kernel.name, &registers);
  for (uint32_t i = 0; i < registers; ++i) {
    kernel.text += fmt::format("ld.global.b32 %d{}, [%b0+{}];\n", i, 4 * kThreads * i);
  }
  kernel.text += move;
  move = RandomMove(random, false, &kernel.name, &registers);
  kernel.text += move;
  for (uint32_t i = 0; i < registers; ++i) {
    kernel.text += fmt::format("st.global.b32 [%b1+{}], %d{};\n", 4 * kThreads * i, i);
  }
  kernel.text += End();
  return kernel;
}

}  // namespace

std::vector<BlockKernel> TensorMemoryKernels() {
  std::vector<TensorKind> kinds = {
      {"f16", 1, 0, 0}, {"f16", 0, 0, 0}, {"f16", 1, 1, 1}, {"tf32", 1, 2, 2}};
  // Floats of 6 and 4 bits are only supported in shared memory, except for kinds of mxf4.
  for (const uint32_t a : {0u, 1u, 3u, 4u, 5u}) {
    for (const uint32_t b : {0u, 1u, 3u, 4u, 5u}) {
      if (a > 1 || b > 1) kinds.push_back({"f8f6f4", 1, a, b});
      kinds.push_back({"mxf8f6f4", 1, a, b, false, 1});
    }
  }
  kinds.push_back({"mxf4", 1, 1, 1, false, 2});
  kinds.push_back({"mxf4nvf4", 1, 1, 1, false, 2});
  kinds.push_back({"mxf4nvf4", 1, 1, 1, false, 4});
  for (uint32_t i = 0; i < 8; ++i) {
    kinds.push_back({"f8f6f4", i / 4, i / 2 % 2, i % 2});
    kinds.push_back({"i8", 2, i / 2 % 2, i % 2, i >= 4});
  }
  std::vector<BlockKernel> kernels;
  uint64_t seed = 0;
  for (const TensorKind& kind : kinds) {
    const uint64_t count = kind.bytes() > 1 ? 6 : kind.kind == "i8" || kind.d == 0 ? 3 : 2;
    for (const bool in_tensor_memory : {false, true}) {
      if (in_tensor_memory && kind.is_f8() && kind.is_narrow(kind.a)) continue;
      for (uint64_t i = 0; i < count; ++i) {
        kernels.push_back(ProductMaker(kind, in_tensor_memory, ++seed).Make());
      }
    }
  }
  for (uint64_t i = 0; i < 60; ++i) kernels.push_back(MoveKernel(++seed));
  return kernels;
}

}  // namespace cupel::reference
