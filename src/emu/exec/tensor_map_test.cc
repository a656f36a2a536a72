// Tests kernels that make tensor maps of zeros, as Triton's do: tensormap.replace in shared or
// global memory, then the copies that use the maps.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kColumns = 32, kRows = 16;

std::string Replaced(const std::string& place, const std::string& fields) {
  std::string text;
  size_t begin = 0;
  while (begin < fields.size()) {
    const size_t dot = fields.find(' ', begin), end = fields.find(';', begin);
    const std::string name = fields.substr(begin, dot - begin);
    const bool wide = name == "global_address" || name == "global_stride";
    text += "tensormap.replace.tile." + name + place.substr(0, place.find(' ')) + ".b1024." +
            (wide ? "b64" : "b32") + " [" + place.substr(place.find(' ') + 1) + "], " +
            fields.substr(dot + 1, end - dot) + "\n";
    begin = end + 1;
  }
  return text;
}

/// What a kernel does differently.
struct Change {
  bool in_global = false;  // replaces fields in global memory
  std::string extra;       // fields that it replaces last
  bool zeroes = true, acquires = true, waits = true, releases = true;
};

/// One warp makes a map of a matrix of float32, loads the box of 4 rows and 8 columns at row 1 and
/// column 4, and stores it.
std::string MapProgram(const Change& change) {
  const std::string place = change.in_global ? ".global %scratch" : ".shared::cta %map";
  const std::string fields =
      "global_address %in;rank 1;box_dim 0, 8;box_dim 1, 4;global_dim 0, 32;global_dim 1, 16;"
      "global_stride 0, 128;element_stride 0, 1;element_stride 1, 1;elemtype 7;"
      "interleave_layout 0;swizzle_mode 0;fill_mode 0;" +
      change.extra;
  std::string text =
      ".version 8.7\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 scratch)\n{\n"
      ".reg .pred %first, %p; .reg .b32 %t, %at, %map, %w; .reg .b64 %in, %out, %scratch, %to;\n"
      ".shared .align 128 .b8 map[128];\n.shared .align 128 .b8 tile[128];\n"
      ".shared .align 8 .b64 bar;\n"
      "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %scratch, [scratch];\n"
      "mov.u32 %t, %tid.x;\nsetp.eq.u32 %first, %t, 0;\nmov.u32 %map, map;\n"
      "mad.lo.u32 %at, %t, 4, %map;\nmul.wide.u32 %to, %t, 4;\n";
  if (change.zeroes) {
    text += change.in_global ? "add.s64 %out, %scratch, %to;\nst.global.b32 [%out], 0;\n"
                             : "st.shared.b32 [%at], 0;\n";
  }
  text +=
      "ld.param.u64 %out, [out];\nadd.s64 %out, %out, %to;\nbar.warp.sync -1;\n@!%first bra "
      "MADE;\n" +
      Replaced(place, fields) +
      "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\nMADE:\n"
      "bar.warp.sync -1;\n";
  if (!change.in_global) {
    text +=
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%scratch], [%map], 128;\n";
  } else if (change.releases) {
    text += "fence.proxy.tensormap::generic.release.gpu;\n";
  }
  if (change.acquires) text += "fence.proxy.tensormap::generic.acquire.gpu [%scratch], 128;\n";
  if (change.waits) text += "bar.sync 0;\n";
  return text +
         "@!%first bra WAIT;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n"
         "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
         "[tile], [%scratch, {4, 1}], [bar];\n"
         "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n@!%p bra WAIT;\n"
         "mov.u32 %at, tile;\nmad.lo.u32 %at, %t, 4, %at;\nld.shared.b32 %w, [%at];\n"
         "st.global.b32 [%out], %w;\nret;\n}\n";
}

LaunchOutcome RunMap(const Change& change, std::vector<uint32_t>* result = nullptr) {
  Interpreter emu(MapProgram(change));
  emu.CheckEverything();
  std::vector<uint32_t> in(kColumns * kRows);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i);
  const uint64_t from = emu.Buffer(in), to = emu.Empty<uint32_t>(32);
  const LaunchOutcome outcome =
      emu.Launch("k", {1, 1, 1}, {32, 1, 1}, from, to, emu.Empty<uint32_t>(32));
  if (result != nullptr) *result = emu.Read<uint32_t>(to, 32);
  return outcome;
}

void ExpectFound(const Change& change, const std::string& code, const std::string& words) {
  const LaunchOutcome outcome = RunMap(change);
  const auto found = std::find_if(outcome.findings.begin(), outcome.findings.end(),
                                  [&](const records::Finding& f) { return f.code == code; });
  ASSERT_NE(found, outcome.findings.end()) << Summary(outcome);
  EXPECT_NE(found->message.find(words), std::string::npos) << Summary(outcome);
}

TEST(TensorMapTest, CopiesWithMapsThatKernelsMake) {
  for (const bool in_global : {false, true}) {
    Change change;
    change.in_global = in_global;
    std::vector<uint32_t> result;
    const LaunchOutcome outcome = RunMap(change, &result);
    EXPECT_TRUE(outcome.completed) << Summary(outcome);
    EXPECT_EQ(Summary(outcome), "");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], (1 + i / 8) * kColumns + 4 + i % 8) << i;
  }
}

TEST(TensorMapTest, ReplacesTheFillAndTheSwizzle) {
  Change change;
  std::vector<uint32_t> result;
  change.extra = "global_dim 0, 8;fill_mode 1;swizzle_mode 1;";
  EXPECT_EQ(Summary(RunMap(change, &result)), "");
  for (uint32_t i = 0; i < 32; ++i) {
    // The tile begins at byte 128, where the halves of a row change places. The columns from 8 on
    // are outside of the tensor.
    const uint32_t column = 4 + (i ^ 4u) % 8;
    EXPECT_EQ(result[i], column < 8 ? (1 + i / 8) * kColumns + column : 0x7ff77ff7u) << i;
  }
}

TEST(TensorMapTest, FindsInvalidMapsWhenTheyAreUsed) {
  Change change;
  change.extra = "global_stride 0, 72;";
  ExpectFound(change, "illegal_instruction", "strides must be multiples of 16 bytes");
  change.extra = "elemtype 0;fill_mode 1;";
  ExpectFound(change, "illegal_instruction", "only floating-point types can fill with NaN");
  change.extra = "rank 2;element_stride 2, 1;";
  ExpectFound(change, "illegal_instruction", "2 dimensions");
  change.extra = "";
  change.zeroes = false;
  ExpectFound(change, "uninitialized_shared", "");
}

TEST(TensorMapTest, FindsMissingFencesOfMaps) {
  Change change;
  change.acquires = false;
  ExpectFound(change, "missing_proxy_fence", "fence.proxy.tensormap");
  change.acquires = true;
  change.in_global = true;
  change.releases = false;
  ExpectFound(change, "missing_proxy_fence", "fence.proxy.tensormap");
}

}  // namespace
}  // namespace cupel::emu
