// Tests registers of 128 bits. Their moves, accesses and atomics are compared in tests/reference.
// SPDX-License-Identifier: Apache-2.0
#include "emu/decode/wide_registers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"

namespace cupel::emu {
namespace {

/// Threads exchange 128-bit values of a cell until each has put in its own.
TEST(WideRegistersTest, AtomicsExchangeBothHalvesTogether) {
  Interpreter emu(
      ".version 8.3\n.target sm_90\n.address_size 64\n"
      ".visible .entry k(.param .u64 cell, .param .u64 out)\n{\n"
      ".reg .pred %p, %q; .reg .b64 %cell, %out, %at, %t, %l, %h, %l2, %h2; .reg .b32 %r;\n"
      ".reg .b128 %old, %new, %got;\n"
      "ld.param.u64 %cell, [cell];\nld.param.u64 %out, [out];\nmov.u32 %r, %tid.x;\n"
      "mul.wide.u32 %at, %r, 16;\nadd.s64 %out, %out, %at;\ncvt.u64.u32 %t, %r;\n"
      "ld.relaxed.gpu.global.b128 %old, [%cell];\n"
      "AGAIN: mov.b128 {%l, %h}, %old;\nadd.s64 %l2, %l, 1;\nsub.s64 %h2, %h, 1;\n"
      "mov.b128 %new, {%l2, %h2};\natom.relaxed.gpu.global.cas.b128 %got, [%cell], %old, %new;\n"
      "mov.b128 {%l2, %h2}, %got;\nsetp.ne.u64 %p, %l2, %l;\nsetp.ne.or.u64 %p, %h2, %h, %p;\n"
      "mov.b128 %old, %got;\n@%p bra AGAIN;\n"
      "st.global.b128 [%out], %got;\nret;\n}\n");
  emu.CheckEverything();
  const uint64_t cell = emu.Buffer(std::vector<uint64_t>{5, 100});
  const uint64_t out = emu.Empty<uint64_t>(128);
  const LaunchOutcome outcome = emu.Launch("k", {1, 1, 1}, {64, 1, 1}, cell, out);
  EXPECT_EQ(Summary(outcome), "");
  EXPECT_EQ(emu.Read<uint64_t>(cell, 2), (std::vector<uint64_t>{69, 36}));
  for (uint64_t i = 0; i < 64; ++i) {
    const std::vector<uint64_t> pair = emu.Read<uint64_t>(out + 16 * i, 2);
    EXPECT_EQ(pair[0] + pair[1], 105u);
  }
}

TEST(WideRegistersTest, AccessesNeedAnAlignmentOf16Bytes) {
  Interpreter emu(
      ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in)\n{\n"
      ".reg .b64 %in; .reg .b128 %q;\nld.param.u64 %in, [in];\nld.global.b128 %q, [%in+8];\n"
      "st.global.b128 [%in], %q;\nret;\n}\n");
  const LaunchOutcome outcome =
      emu.Launch("k", {1, 1, 1}, {1, 1, 1}, emu.Buffer(std::vector<uint64_t>(4)));
  ASSERT_EQ(outcome.findings.size(), 1u);
  EXPECT_EQ(outcome.findings[0].code, "misaligned");
}

}  // namespace
}  // namespace cupel::emu
