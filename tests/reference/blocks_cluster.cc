// Kernels of clusters: ranks and special registers, accesses, atomics and arrivals in other blocks,
// asynchronous stores, and copies to several blocks.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "blocks.h"

namespace cupel::reference {
namespace {

constexpr uint32_t kThreads = 64;
constexpr const char* kBarrier = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";

std::string OfCluster(uint32_t blocks) {
  return fmt::format(".explicitcluster .reqnctapercluster {}, 1, 1", blocks);
}

/// Sets %b0 to the block's 16 * kThreads bytes of the first buffer and %b1 to those of the second,
/// %x10 to the block's rank, and %x11 to that of the next block.
std::string Place(uint32_t blocks) {
  return fmt::format(
      "mov.u32 %x0, %ctaid.x;\nmul.wide.u32 %y0, %x0, {};\nadd.s64 %b0, %b0, %y0;\n"
      "add.s64 %b1, %b1, %y0;\nmov.u32 %x10, %cluster_ctarank;\nadd.u32 %x11, %x10, 1;\n"
      "rem.u32 %x11, %x11, {};\n",
      16 * kThreads, blocks);
}

BlockKernel Named(std::string name, uint32_t blocks, Random& random) {
  BlockKernel kernel;
  kernel.name = fmt::format("{} in a cluster of {}", name, blocks);
  kernel.grid = 2 * blocks;
  kernel.block = kThreads;
  const size_t bytes = size_t{kernel.grid} * kThreads * 16;
  kernel.buffers = {RandomBytes(bytes, random), std::vector<std::byte>(bytes)};
  kernel.text = BlockHead(2, 0, OfCluster(blocks)) + Place(blocks);
  return kernel;
}

/// Stores the special registers, and the ranks of addresses.
BlockKernel Registers(uint32_t blocks, Random& random) {
  BlockKernel kernel = Named("special registers", blocks, random);
  std::string& text = kernel.text;
  text += ".shared .align 8 .b64 cell;\nsetp.ne.u32 %q, %t, 0;\n@%q bra END;\n";
  int at = 0;
  auto store = [&](const std::string& instruction) {
    text += instruction + fmt::format("st.global.b32 [%b1+{}], %x0;\n", 4 * at++);
  };
  for (const char* name : {"cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"}) {
    for (const char* part : {"x", "y", "z"}) {
      store(fmt::format("mov.u32 %x0, %{}.{};\n", name, part));
    }
  }
  store("mov.u32 %x0, %cluster_ctarank;\n");
  store("mov.u32 %x0, %cluster_nctarank;\n");
  store("mov.pred %p, %is_explicit_cluster;\nselp.u32 %x0, 1, 0, %p;\n");
  store(
      "mov.u32 %x1, cell;\nmapa.shared::cluster.u32 %x2, %x1, %x11;\n"
      "getctarank.shared::cluster.u32 %x0, %x2;\n");
  store("getctarank.shared::cluster.u32 %x0, %x1;\n");
  store("mapa.shared::cluster.u32 %x2, cell, 0;\ngetctarank.shared::cluster.u32 %x0, %x2;\n");
  store(
      "mov.u64 %y0, cell;\ncvta.shared.u64 %y0, %y0;\nmapa.u64 %y1, %y0, %x11;\n"
      "getctarank.u64 %x0, %y1;\n");
  store("getctarank.u64 %x0, %y0;\n");
  text += "END: ret;\n}\n";
  return kernel;
}

/// Threads write to the next block's shared memory, read the block before it, and add to all.
BlockKernel Accesses(uint32_t blocks, Random& random) {
  BlockKernel kernel = Named("accesses", blocks, random);
  std::string& text = kernel.text;
  text += fmt::format(
      ".shared .align 16 .b8 tile[{0}];\n.shared .align 4 .b32 sum;\n.shared .align 4 .b32 most;\n"
      "setp.ne.u32 %q, %t, 0;\n@%q bra READY;\nst.shared.b32 [sum], 0;\nst.shared.b32 [most], 0;\n"
      "READY:\n{1}mul.wide.u32 %y0, %t, 16;\nadd.s64 %b0, %b0, %y0;\nadd.s64 %b1, %b1, %y0;\n"
      "shl.b32 %x4, %t, 4;\nmov.u32 %x5, tile;\nadd.u32 %x5, %x5, %x4;\n"
      "ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%b0];\n"
      "mapa.shared::cluster.u32 %x6, %x5, %x11;\n"
      "st.shared::cluster.v2.b32 [%x6], {{%w0, %w1}};\n"
      "cvt.u64.u32 %y1, %x5;\ncvta.shared.u64 %y1, %y1;\nmapa.u64 %y1, %y1, %x11;\n"
      "st.b32 [%y1+8], %w2;\nst.b32 [%y1+12], %w3;\n"
      "mov.u32 %x7, sum;\nmapa.shared::cluster.u32 %x7, %x7, %x11;\n"
      "atom.relaxed.cluster.shared::cluster.add.u32 %x8, [%x7], %w0;\n"
      "mov.u32 %x7, most;\nmapa.shared::cluster.u32 %x7, %x7, 0;\n"
      "red.relaxed.cluster.shared::cluster.max.u32 [%x7], %w1;\n"
      "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n"
      "ld.shared.b32 %w0, [sum];\nld.shared::cluster.b32 %w1, [%x7];\n"
      "ld.shared.v2.b32 {{%w2, %w3}}, [%x5+8];\n"
      "ld.shared::cluster.b32 %x9, [%x6+4];\nadd.u32 %w2, %w2, %x9;\n"
      "st.global.v4.b32 [%b1], {{%w0, %w1, %w2, %w3}};\n{1}ret;\n}}\n",
      16 * kThreads, kBarrier);
  return kernel;
}

/// st.async or red.async to the next block, which waits for the bytes at its mbarrier.
BlockKernel Asynchronous(uint32_t blocks, const std::string& mnemonic, int bytes, bool same_cell,
                         Random& random) {
  BlockKernel kernel = Named(mnemonic, blocks, random);
  const std::string type = mnemonic.substr(mnemonic.rfind('.') + 1);
  const bool wide = type.ends_with("64");
  const int count = bytes / (wide ? 8 : 4);
  std::string value;
  for (int i = 0; i < count; ++i) {
    value += fmt::format("{}{}{}", i == 0 ? "" : ", ", wide ? "%y" : "%w", wide ? i + 2 : i);
  }
  if (count > 1) value = "{" + value + "}";
  kernel.text += fmt::format(
      ".shared .align 16 .b8 tile[{0}];\n.shared .align 8 .b64 bar;\n"
      "mul.wide.u32 %y0, %t, 16;\nadd.s64 %b0, %b0, %y0;\nadd.s64 %b1, %b1, %y0;\n"
      "ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%b0];\nld.global.v2.b64 {{%y2, %y3}}, [%b0];\n"
      "shl.b32 %x4, %t, 4;\nmov.u32 %x5, tile;\nadd.u32 %x5, %x5, %x4;\n"
      "st.shared.v4.b32 [%x5], {{%w3, %w2, %w1, %w0}};\nmov.u32 %x6, {1};\n"
      "mapa.shared::cluster.u32 %x6, %x6, %x11;\nmov.u32 %x7, bar;\n"
      "mapa.shared::cluster.u32 %x7, %x7, %x11;\nsetp.ne.u32 %q, %t, 0;\n@%q bra READY;\n"
      "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {2};\nREADY:\n{3}"
      "{4} [%x6], {5}, [%x7];\n",
      16 * kThreads, same_cell ? "tile" : "%x5", bytes * static_cast<int>(kThreads), kBarrier,
      mnemonic, value);
  kernel.text += WaitFor("bar", "0", "FULL");
  kernel.text += fmt::format(
      "ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%x5];\n"
      "st.global.v4.b32 [%b1], {{%w0, %w1, %w2, %w3}};\n{}ret;\n}}\n",
      kBarrier);
  return kernel;
}

/// Each block copies its tile to the next block.
BlockKernel CopyToNext(uint32_t blocks, Random& random) {
  BlockKernel kernel = Named("copy to the next block", blocks, random);
  constexpr size_t kBytes = 16 * kThreads;
  kernel.text += fmt::format(
      ".shared .align 128 .b8 tile[{0}];\n.shared .align 128 .b8 other[{0}];\n"
      ".shared .align 8 .b64 bar;\n",
      kBytes);
  kernel.text += CopyIn("%b0", "tile", kBytes, kThreads);
  kernel.text += fmt::format(
      "setp.ne.u32 %q, %t, 0;\n@%q bra READY;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"
      "fence.mbarrier_init.release.cluster;\nREADY: fence.proxy.async;\n{0}@%q bra ISSUED;\n"
      "mov.u32 %x1, other;\nmapa.shared::cluster.u32 %x1, %x1, %x11;\nmov.u32 %x2, bar;\n"
      "mapa.shared::cluster.u32 %x2, %x2, %x11;\nmov.u32 %x3, tile;\n"
      "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%x2], {1};\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%x1], [%x3], {1}, [%x2];\nISSUED:\n",
      kBarrier, kBytes);
  kernel.text += WaitFor("bar", "0", "FULL") + CopyOut("%b1", "other", kBytes, kThreads);
  kernel.text +=
      "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\nret;\n}\n";
  return kernel;
}

/// All blocks arrive at the mbarrier of block 0.
BlockKernel Arrivals(uint32_t blocks, Random& random) {
  BlockKernel kernel = Named("arrivals", blocks, random);
  kernel.text += fmt::format(
      ".shared .align 8 .b64 bar;\n.shared .align 4 .b32 cell;\nsetp.ne.u32 %q, %t, 0;\n"
      "@%q bra READY;\nst.shared.b32 [cell], 0;\nmbarrier.init.shared::cta.b64 [bar], {0};\n"
      "fence.mbarrier_init.release.cluster;\nREADY:\n{1}"
      "mov.u32 %x5, cell;\nmapa.shared::cluster.u32 %x5, %x5, 0;\n"
      "red.relaxed.cluster.shared::cluster.add.u32 [%x5], %t;\n"
      "mov.u32 %x6, bar;\nmapa.shared::cluster.u32 %x6, %x6, 0;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%x6];\n"
      "setp.ne.u32 %p, %x10, 0;\n@%p bra DONE;\n",
      blocks * kThreads, kBarrier);
  kernel.text += WaitFor("bar", "0", "FULL", ".acquire.cluster");
  kernel.text += fmt::format(
      "ld.shared.b32 %x1, [cell];\nmul.wide.u32 %y0, %t, 16;\nadd.s64 %b1, %b1, %y0;\n"
      "st.global.b32 [%b1], %x1;\nDONE:\n{}ret;\n}}\n",
      kBarrier);
  return kernel;
}

/// Each block copies a part to the blocks of a mask; all wait for all parts.
BlockKernel Multicast(uint32_t blocks, bool tensor, Random& random) {
  BlockKernel kernel = Named(tensor ? "multicast of a tensor" : "multicast", blocks, random);
  constexpr size_t kPart = 256;
  const uint32_t all = (1u << blocks) - 1;
  if (tensor) {
    plan::TensorMap map;
    map.type = plan::TensorMapType::kU32;
    map.dims[0] = kernel.buffers[0].size() / 4;
    map.box[0] = kPart / 4;
    map.element_strides[0] = 1;
    kernel.maps = {{map, 0}};
    kernel.text = BlockHead(2, 1, OfCluster(blocks)) + Place(blocks);
  }
  std::vector<uint32_t> masks;
  for (uint32_t b = 0; b < blocks; ++b)
    masks.push_back(1 + static_cast<uint32_t>(random.Below(all)));
  std::string& text = kernel.text;
  text += fmt::format(
      ".shared .align 128 .b8 tile[{0}];\n.shared .align 8 .b64 bar;\nmov.u32 %x5, tile;\n"
      "shl.b32 %x6, %t, 4;\nadd.u32 %x6, %x6, %x5;\n"
      "ZERO: st.shared.v4.b32 [%x6], {{0, 0, 0, 0}};\nadd.u32 %x6, %x6, {1};\n"
      "add.u32 %x7, %x5, {0};\nsetp.lt.u32 %p, %x6, %x7;\n@%p bra ZERO;\n"
      "fence.proxy.async;\nsetp.ne.u32 %q, %t, 0;\n@%q bra READY;\nmov.u32 %x8, 0;\n"
      "mov.u32 %x9, 0;\n",
      1024, 16 * kThreads);
  for (uint32_t b = 0; b < blocks; ++b) {
    // %x8: bytes for this block. %x9: the mask of this block's copy.
    text += fmt::format(
        "mov.u32 %x0, {0};\nshr.u32 %x1, %x0, %x10;\nand.b32 %x1, %x1, 1;\n"
        "mad.lo.u32 %x8, %x1, {1}, %x8;\nsetp.eq.u32 %p, %x10, {2};\nselp.b32 %x9, %x0, %x9, %p;\n",
        masks[b], kPart, b);
  }
  text +=
      "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %x8;\nREADY:\n";
  text += kBarrier;
  text += fmt::format(
      "@%q bra ISSUED;\n.reg .b16 %mask;\ncvt.u16.u32 %mask, %x9;\n"
      "mad.lo.u32 %x5, %x10, {}, %x5;\n",
      kPart);
  text += tensor ? fmt::format(
                       "mov.u32 %x1, %ctaid.x;\nmul.lo.u32 %x1, %x1, {};\n"
                       "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::"
                       "bytes.multicast::cluster [%x5], [%m0, {{%x1}}], [bar], %mask;\n",
                       4 * kThreads)
                 : fmt::format(
                       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                       ".multicast::cluster [%x5], [%b0], {}, [bar], %mask;\n",
                       kPart);
  text += "ISSUED:\n" + WaitFor("bar", "0", "FULL") + CopyOut("%b1", "tile", 1024, kThreads);
  text += std::string(kBarrier) + "ret;\n}\n";
  return kernel;
}

}  // namespace

std::vector<BlockKernel> ClusterKernels() {
  Random random(4000);
  std::vector<BlockKernel> kernels;
  for (const uint32_t blocks : {1u, 2u, 4u}) {
    kernels.push_back(Registers(blocks, random));
    kernels.push_back(Accesses(blocks, random));
    kernels.push_back(Arrivals(blocks, random));
    kernels.push_back(CopyToNext(blocks, random));
    kernels.push_back(Multicast(blocks, false, random));
    kernels.push_back(Multicast(blocks, true, random));
  }
  const std::string store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.";
  for (const std::string type : {"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
    const int bytes = type.ends_with("64") ? 8 : 4;
    kernels.push_back(Asynchronous(2, store + type, bytes, false, random));
    kernels.push_back(Asynchronous(3, store + "v2." + type, 2 * bytes, false, random));
    if (bytes == 4) kernels.push_back(Asynchronous(2, store + "v4." + type, 16, false, random));
  }
  for (const char* tail : {"inc.u32", "dec.u32", "min.u32", "min.s32", "max.u32", "max.s32",
                           "add.u32", "add.s32", "and.b32", "or.b32", "xor.b32", "add.u64"}) {
    const std::string mnemonic =
        std::string("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.") +
        tail;
    const bool sums = std::string(tail).find("c.") == std::string::npos;  // not inc and dec
    kernels.push_back(Asynchronous(2, mnemonic, mnemonic.ends_with("64") ? 8 : 4, sums, random));
  }
  return kernels;
}

}  // namespace cupel::reference
