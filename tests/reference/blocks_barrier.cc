// Kernels with copies that are not tensor copies, and with mbarriers: random sequences of one
// thread, and stages between a producer and consumers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "blocks.h"

namespace cupel::reference {
namespace {

constexpr uint32_t kThreads = 128;
constexpr size_t kTile = 4096;

/// Random instructions on one mbarrier by one thread. Keeps their number of arrivals and bytes
/// defined, and stores what waits and states tell.
std::string Sequence(Random& random, size_t* results) {
  const auto first = static_cast<uint32_t>(1 + random.Below(6));
  uint32_t expected = first, pending = first;
  int64_t bytes = 0;
  bool has_state = false, old_state = false;  // %y0, and whether its phase is over
  std::string text = fmt::format("mbarrier.init.shared::cta.b64 [bar], {};\n", first);
  auto end_phase = [&] {
    if (pending != 0 || bytes != 0) return;
    pending = expected;
    if (old_state) has_state = false;
    old_state = has_state;
  };
  auto store = [&](const std::string& instruction) {
    text += instruction;
    text += fmt::format("st.global.b32 [%b0+{}], %x0;\n", 4 * (*results)++);
  };
  for (int i = 0; i < 30; ++i) {
    const uint64_t choice = random.Below(9);
    if (choice <= 1 && pending > 0) {
      const auto count = static_cast<uint32_t>(1 + random.Below(pending));
      store(
          fmt::format("mbarrier.arrive.release.cta.shared::cta.b64 %y0, [bar]{};\n"
                      "mbarrier.pending_count.b64 %x0, %y0;\n",
                      count == 1 ? "" : fmt::format(", {}", count)));
      has_state = true, old_state = false;
      pending -= count;
    } else if (choice == 2 && pending > 0) {
      const auto size = static_cast<uint32_t>(random.Below(1000));
      text += fmt::format("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};\n", size);
      bytes += size, --pending;
    } else if (choice == 3) {
      const auto size = static_cast<uint32_t>(1 + random.Below(1000));
      text += fmt::format("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {};\n", size);
      bytes += size;
    } else if (choice == 4 && bytes > 0) {
      const int64_t size =
          random.Below(2) == 0 ? bytes : 1 + static_cast<int64_t>(random.Below(100)) % bytes;
      text += fmt::format("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], {};\n", size);
      bytes -= size;
    } else if (choice == 5 && pending > 0 && expected > 1) {
      store(
          "mbarrier.arrive_drop.shared::cta.b64 %y0, [bar];\n"
          "mbarrier.pending_count.b64 %x0, %y0;\n");
      has_state = true, old_state = false;
      --pending, --expected;
    } else if (choice == 6 && pending > 1) {
      store(
          "mbarrier.arrive.noComplete.shared::cta.b64 %y0, [bar], 1;\n"
          "mbarrier.pending_count.b64 %x0, %y0;\n");
      has_state = true, old_state = false;
      --pending;
    } else if (choice == 7) {
      store(
          fmt::format("mbarrier.test_wait.parity.shared::cta.b64 %p, [bar], {};\n"
                      "selp.u32 %x0, 1, 0, %p;\n",
                      random.Below(2)));
    } else if (choice == 8 && has_state) {
      store(
          "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p, [bar], %y0;\n"
          "selp.u32 %x0, 1, 0, %p;\n");
    }
    end_phase();
  }
  return text + "mbarrier.inval.shared::cta.b64 [bar];\n";
}

BlockKernel SequenceKernel(uint64_t seed) {
  Random random(seed);
  const bool generic = random.Below(3) == 0;
  BlockKernel kernel;
  kernel.name =
      fmt::format("mbarrier sequence {}{}", seed, generic ? " with generic addresses" : "");
  kernel.block = 1;
  size_t results = 0;
  std::string sequences = Sequence(random, &results) + Sequence(random, &results);
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at; (at = sequences.find(from)) != sequences.npos;) {
      sequences.replace(at, from.size(), to);
    }
  };
  if (generic) {
    replace(".shared::cta", "");
    replace("[bar]", "[%y3]");
  }
  kernel.text = BlockHead(1, 0) +
                ".shared .align 8 .b64 bar;\nmov.u64 %y3, bar;\ncvta.shared.u64 %y3, %y3;\n" +
                sequences + "ret;\n}\n";
  kernel.buffers = {std::vector<std::byte>(4 * results)};
  return kernel;
}

/// One thread fills stages by bulk copies; 64 threads read them and free them.
BlockKernel PipelineKernel(int stages, int chunks, uint64_t seed) {
  constexpr int kChunk = 1024;
  Random random(seed);
  BlockKernel kernel;
  kernel.name = fmt::format("pipeline of {} stages", stages);
  kernel.block = 96;
  kernel.buffers = {RandomBytes(static_cast<size_t>(chunks * kChunk), random),
                    std::vector<std::byte>(static_cast<size_t>(chunks) * 64 * 4)};
  std::string& text = kernel.text;
  text = BlockHead(2, 0);
  text += fmt::format(
      ".shared .align 128 .b8 tile[{0}];\n.shared .align 8 .b64 full[{1}];\n"
      ".shared .align 8 .b64 empty[{1}];\nsetp.ne.u32 %q, %t, 0;\n@%q bra READY;\n",
      stages * kChunk, stages);
  for (int i = 0; i < stages; ++i) {
    text += fmt::format(
        "mbarrier.init.shared::cta.b64 [full+{0}], 1;\n"
        "mbarrier.init.shared::cta.b64 [empty+{0}], 64;\n",
        8 * i);
  }
  text +=
      "fence.mbarrier_init.release.cluster;\nREADY: bar.sync 0;\n"
      "setp.ge.u32 %p, %t, 32;\n@%p bra CONSUME;\n@%q bra END;\n";
  for (int i = 0; i < chunks; ++i) {
    const int stage = i % stages, round = i / stages;
    if (round > 0) {
      text += WaitFor(fmt::format("empty+{}", 8 * stage), std::to_string((round - 1) % 2),
                      fmt::format("FREE{}", i));
    }
    text += fmt::format(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full+{0}], {1};\n"
        "mov.u32 %x0, tile;\nadd.u32 %x0, %x0, {2};\nadd.s64 %y0, %b0, {3};\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%x0], [%y0], {1}, [full+{0}];\n",
        8 * stage, kChunk, stage * kChunk, i * kChunk);
  }
  text +=
      "bra END;\nCONSUME: sub.u32 %t, %t, 32;\nshl.b32 %x1, %t, 4;\nmov.u32 %x2, tile;\n"
      "add.u32 %x1, %x1, %x2;\nmul.wide.u32 %y1, %t, 4;\nadd.s64 %b1, %b1, %y1;\n";
  for (int i = 0; i < chunks; ++i) {
    const int stage = i % stages, round = i / stages;
    text += WaitFor(fmt::format("full+{}", 8 * stage), std::to_string(round % 2),
                    fmt::format("FULL{}", i));
    text += fmt::format(
        "ld.shared.v4.b32 {{%w0, %w1, %w2, %w3}}, [%x1+{}];\nadd.u32 %w0, %w0, %w1;\n"
        "xor.b32 %w2, %w2, %w3;\nmad.lo.u32 %w0, %w0, %w2, %t;\nst.global.b32 [%b1+{}], %w0;\n"
        "mbarrier.arrive.shared::cta.b64 _, [empty+{}];\n",
        stage * kChunk, i * 256, 8 * stage);
  }
  text += "END: ret;\n}\n";
  return kernel;
}

/// cp.async of every size, with fewer bytes of the source, or with none.
BlockKernel SmallCopies(const std::string& cache, int size, bool increments, uint64_t seed) {
  Random random(seed);
  BlockKernel kernel;
  kernel.name = fmt::format("cp.async.{} {}", cache, size);
  kernel.buffers = {RandomBytes(3 * kThreads * 16, random),
                    std::vector<std::byte>(3 * kThreads * 16)};
  kernel.text =
      BlockHead(2, 0) + fmt::format(".shared .align 16 .b8 tile[{}];\n.shared .align 8 .b64 bar;\n",
                                    3 * kThreads * 16);
  kernel.text += CopyIn("%b1", "tile", 3 * kThreads * 16, kThreads);
  kernel.text += fmt::format(
      "setp.ne.u32 %q, %t, 0;\n@%q bra READY;\nmbarrier.init.shared::cta.b64 [bar], {3};\n"
      "READY: bar.sync 0;\nmul.wide.u32 %y0, %t, 16;\nadd.s64 %b0, %b0, %y0;\n"
      "mov.u32 %x0, tile;\nshl.b32 %x1, %t, 4;\nadd.u32 %x0, %x0, %x1;\nrem.u32 %x1, %t, {0};\n"
      "add.u32 %x1, %x1, 1;\nand.b32 %x2, %t, 1;\nsetp.ne.u32 %p, %x2, 0;\n"
      "cp.async.{1}.shared.global [%x0], [%b0], {0};\n"
      "cp.async.{1}.shared.global [%x0+{2}], [%b0+{2}], {0}, %x1;\ncp.async.commit_group;\n"
      "cp.async.{1}.shared.global [%x0+{4}], [%b0+{4}], {0}, %p;\n"
      "cp.async.mbarrier.arrive{5}.shared::cta.b64 [bar];\n{6}",
      size, cache, kThreads * 16, kThreads, 2 * kThreads * 16, increments ? "" : ".noinc",
      increments ? "mbarrier.arrive.shared::cta.b64 _, [bar];\n" : "");
  kernel.text += WaitFor("bar", "0", "FULL") + "cp.async.wait_group 0;\nbar.sync 0;\n";
  kernel.text += CopyOut("%b1", "tile", 3 * kThreads * 16, kThreads) + "ret;\n}\n";
  return kernel;
}

struct Reduction {
  std::string operation, type;
  const Format* format = nullptr;
};

/// cp.async.bulk and cp.reduce.async.bulk between shared memory and global memory.
BlockKernel BulkKernel(const Reduction& reduction, bool to_shared, uint64_t seed) {
  Random random(seed);
  const size_t offset = 16 * random.Below(16), bytes = 16 * (1 + random.Below(128));
  BlockKernel kernel;
  kernel.name = fmt::format("bulk copy to {} memory {}.{}", to_shared ? "shared" : "global",
                            reduction.operation, reduction.type);
  auto values = [&] {
    std::vector<std::byte> result = RandomBytes(kTile, random);
    if (reduction.format == nullptr) return result;
    const auto size = static_cast<size_t>(reduction.format->bits) / 8;
    for (size_t at = 0; at < kTile; at += size) {
      const int value = static_cast<int>(random.Below(100)) - 50;
      const uint64_t bits =
          SmallFloat(value, static_cast<int>(random.Below(4)) - 2, *reduction.format);
      std::memcpy(result.data() + at, &bits, size);
    }
    return result;
  };
  kernel.buffers = {values(), values()};
  const bool reduces = !reduction.operation.empty();
  const std::string tail =
      reduces ? fmt::format(".{}.{}", reduction.operation, reduction.type) : std::string();
  // Copies within shared memory are for clusters only.
  const bool is_clustered = to_shared && !reduction.operation.empty();
  kernel.text = BlockHead(2, 0, is_clustered ? ".explicitcluster .reqnctapercluster 1, 1, 1" : "") +
                fmt::format(
                    ".shared .align 128 .b8 tile[{0}];\n.shared .align 128 .b8 other[{0}];\n"
                    ".shared .align 8 .b64 bar;\n",
                    kTile);
  // The buffers: what is copied, and what is there.
  kernel.text += CopyIn("%b0", "tile", kTile, kThreads) + CopyIn("%b1", "other", kTile, kThreads);
  kernel.text += fmt::format(
      "setp.ne.u32 %q, %t, 0;\n@%q bra READY;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"
      "fence.mbarrier_init.release.cluster;\nREADY: fence.proxy.async;\nbar.sync 0;\n"
      "mov.u32 %x2, tile;\nadd.u32 %x2, %x2, {0};\nmov.u32 %x3, other;\nadd.u32 %x3, %x3, {0};\n"
      "add.s64 %y1, %b0, {0};\nadd.s64 %y2, %b1, {0};\n@%q bra ISSUED;\n",
      offset);
  const std::string hint = random.Below(2) == 0 ? "" : ".L2::cache_hint";
  const std::string policy = hint.empty() ? "" : ", %m0";
  if (!hint.empty()) kernel.text += "createpolicy.fractional.L2::evict_first.b64 %m0;\n";
  const std::string cp = reduces ? "cp.reduce.async.bulk" : "cp.async.bulk";
  if (to_shared) {
    // PTX reduces to shared::cluster only from shared memory, and without a policy.
    kernel.text += fmt::format(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {0};\n"
        "{1}.shared::cluster.{2}.mbarrier::complete_tx::bytes{3} [%x3], [{4}], {0}, [bar]{5};\n",
        bytes, cp, reduces ? "shared::cta" : "global", reduces ? tail : hint,
        reduces ? "%x2" : "%y1", reduces ? "" : policy);
  } else {
    kernel.text += fmt::format(
        "{}.global.shared::cta.bulk_group{}{} [%y2], [%x2], {}{};\ncp.async.bulk.commit_group;\n"
        "cp.async.bulk.wait_group 0;\n",
        cp, hint, tail, bytes, policy);
  }
  kernel.text += "ISSUED:\n";
  if (to_shared) {
    kernel.text += WaitFor("bar", "0", "FULL") + CopyOut("%b1", "other", kTile, kThreads);
  }
  kernel.text += "ret;\n}\n";
  return kernel;
}

}  // namespace

std::vector<BlockKernel> CopyKernels() {
  std::vector<BlockKernel> kernels;
  uint64_t seed = 2000;
  for (const bool increments : {false, true}) {
    for (const int size : {4, 8, 16}) {
      kernels.push_back(SmallCopies("ca", size, increments, ++seed));
    }
    kernels.push_back(SmallCopies("cg", 16, increments, ++seed));
  }
  for (const bool to_shared : {false, true}) {
    for (int i = 0; i < 3; ++i) kernels.push_back(BulkKernel({}, to_shared, ++seed));
  }
  const std::vector<Reduction> global = {{"add", "u32"},
                                         {"add", "s32"},
                                         {"add", "u64"},
                                         {"add", "f32", &kF32},
                                         {"add", "f64", &kF64},
                                         {"add.noftz", "f16", &kF16},
                                         {"add.noftz", "bf16", &kBF16},
                                         {"min", "u32"},
                                         {"min", "s32"},
                                         {"min", "u64"},
                                         {"min", "s64"},
                                         {"min", "f16", &kF16},
                                         {"min", "bf16", &kBF16},
                                         {"max", "u32"},
                                         {"max", "s32"},
                                         {"max", "u64"},
                                         {"max", "s64"},
                                         {"max", "f16", &kF16},
                                         {"max", "bf16", &kBF16},
                                         {"inc", "u32"},
                                         {"dec", "u32"},
                                         {"and", "b32"},
                                         {"and", "b64"},
                                         {"or", "b32"},
                                         {"or", "b64"},
                                         {"xor", "b32"},
                                         {"xor", "b64"}};
  const std::vector<Reduction> shared = {{"add", "u32"}, {"add", "s32"}, {"add", "u64"},
                                         {"min", "u32"}, {"min", "s32"}, {"max", "u32"},
                                         {"max", "s32"}, {"inc", "u32"}, {"dec", "u32"},
                                         {"and", "b32"}, {"or", "b32"},  {"xor", "b32"}};
  for (const Reduction& r : global) kernels.push_back(BulkKernel(r, false, ++seed));
  for (const Reduction& r : shared) kernels.push_back(BulkKernel(r, true, ++seed));
  return kernels;
}

std::vector<BlockKernel> BarrierKernels() {
  std::vector<BlockKernel> kernels;
  for (uint64_t seed = 3000; seed < 3060; ++seed) kernels.push_back(SequenceKernel(seed));
  for (const int stages : {1, 2, 3}) {
    kernels.push_back(PipelineKernel(stages, 7, 3100 + static_cast<uint64_t>(stages)));
  }
  return kernels;
}

}  // namespace cupel::reference
