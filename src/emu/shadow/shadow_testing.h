// Shared by the tests of shadow values: a program of one full and one partial warp, run with and
// without shadows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "emu/core/launch_request.h"
#include "emu/exec/interpreter_testing.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {

/// A program per thread over `in` (float32) with results in `out`. %rd1 and %rd2 point to them.
inline std::string ShadowProgram(const std::string& body, const std::string& functions) {
  std::string text = R"(.version 8.7
.target sm_100
.address_size 64
)";
  text += functions;
  text += R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<20>;
  .reg .b32 %r<20>;
  .reg .f32 %f<20>;
  .reg .f64 %d<20>;
  .reg .b16 %h<20>;
  .reg .pred %p<10>;
  .local .align 16 .b8 stack[64];
  .shared .align 16 .b8 tile[512];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
)";
  text += body;
  text += "\n  ret;\n}\n";
  return text;
}

struct Seen {
  std::vector<float> value;
  std::vector<Shadow> shadow;
  bool places_in_doubt = false;
};

inline constexpr int kThreads = 40;  // a full warp and a partial one

inline float Input(int i) { return 1.0F + 0.37F * static_cast<float>(i); }

/// Runs `body` on Input(0…) and returns `out`. The values must equal those of a plain run.
inline Seen RunShadows(const std::string& body, uint64_t schedule = 0,
                       const std::string& functions = "") {
  Seen seen;
  std::vector<float> inputs;
  for (int i = 0; i < kThreads; ++i) inputs.push_back(Input(i));
  std::vector<float> plain;
  for (const bool with : {false, true}) {
    Interpreter emu(ShadowProgram(body, functions));
    auto run = ShadowRun::Create(emu.memory().base());
    EXPECT_TRUE(run);
    if (with) emu.shadows = run->get();
    emu.options.schedule = schedule;
    const uint64_t in = emu.Buffer(inputs), out = emu.Buffer(std::vector<float>(kThreads));
    if (with) (*run)->memory().HoldsInput(in, kThreads * sizeof(float), true);
    const LaunchOutcome outcome = emu.Launch("k", {1}, {kThreads}, in, out);
    EXPECT_TRUE(outcome.completed) << Summary(outcome) << body;
    if (!outcome.completed) return seen;
    seen.value = emu.Read<float>(out, kThreads);
    if (!with) {
      plain = seen.value;
      continue;
    }
    seen.places_in_doubt = (*run)->memory().places_in_doubt();
    for (int i = 0; i < kThreads; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(plain[static_cast<size_t>(i)]),
                std::bit_cast<uint32_t>(seen.value[static_cast<size_t>(i)]))
          << body;
      seen.shadow.push_back(
          (*run)->memory().Read(out + 4 * static_cast<uint64_t>(i), DType::kF32,
                                std::bit_cast<uint32_t>(seen.value[static_cast<size_t>(i)])));
      seen.shadow.back().flags &= kCauses;
    }
  }
  return seen;
}

/// Expects the shadow to be f of the input, without flags and to double precision.
inline void ExpectExact(const std::string& body, double (*f)(double)) {
  const Seen seen = RunShadows(body);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads}) << body;
  for (int i = 0; i < kThreads; ++i) {
    const double want = f(Input(i));
    EXPECT_NEAR(seen.shadow[static_cast<size_t>(i)].exact, want, 1e-14 * std::fabs(want))
        << body << i;
    EXPECT_EQ(seen.shadow[static_cast<size_t>(i)].flags, 0u) << body << i;
  }
}
inline void ExpectFlags(const std::string& body, uint32_t flags) {
  const Seen seen = RunShadows(body);
  ASSERT_EQ(seen.shadow.size(), size_t{kThreads}) << body;
  for (const Shadow& shadow : seen.shadow) EXPECT_EQ(shadow.flags, flags) << body;
}

}  // namespace cupel::emu
