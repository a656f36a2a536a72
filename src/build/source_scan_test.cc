// SPDX-License-Identifier: Apache-2.0
#include "build/source_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::build {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(NotesFromSource, DetectsComparisonsWithExactSizes) {
  for (const char* code :
       {"if (x.size(1) == 4096) fast();", "const int n = x.size(-1);\nif (n == 768) {}",
        "int64_t total = x.numel(); TORCH_CHECK(total != 1048576);",
        "x.numel() == 65536 ? a : b"}) {
    EXPECT_THAT(NotesFromSource(code), Contains(HasSubstr("exact numbers"))) << code;
  }
  for (const char* code :
       {"if (x.dim() == 4096) {}", "if (x.size(0) == y.size(0)) {}", "if (x.size(0) == 1) {}",
        "if (threadIdx.x == 128) {}", "const int n = x.size(0); if (m == 4096) {}",
        "// x.size(1) == 4096", "f(x.size(0), k == 4096)", "x.size(1) == 4096.5f"}) {
    EXPECT_THAT(NotesFromSource(code), Not(Contains(HasSubstr("exact numbers")))) << code;
  }
}

TEST(NotesFromPtx, ReportsImpureRegisters) {
  EXPECT_THAT(NotesFromPtx("mov.u64 %rd1, %clock64;\nmov.u32 %r1, %smid;"),
              ElementsAre("kernels read the GPU's clock (%clock64)",
                          "kernels read the multiprocessor's number (%smid)"));
  EXPECT_THAT(NotesFromPtx("mov.u32 %r1, %tid.x;"), IsEmpty());
}

TEST(NotesFromSource, IgnoresCommentsAndStrings) {
  EXPECT_THAT(NotesFromSource("// asm(cublas)\nconst char* s = \"asm cub:: thrust::\";"),
              IsEmpty());
  EXPECT_THAT(NotesFromSource("asm volatile(\"\");"), Contains("uses inline assembly"));
}

TEST(FastMathNote, ReportsReplacedFunctions) {
  const std::vector<std::string> fast{"-O3", "--use_fast_math"};
  const std::string ptx = "tanh.approx.f32 %f1, %f2;";
  EXPECT_THAT(FastMathNote("y = tanhf(x);", ptx, fast), HasSubstr("tanhf became tanh.approx"));
  EXPECT_EQ(FastMathNote("y = tanhf(x);", ptx, {"-O3"}), "");
  EXPECT_EQ(FastMathNote("source = \"y = tanhf(x);\"", ptx, fast), "");
  EXPECT_THAT(FastMathNote("source = \"y = tanhf(x);\"", ptx, fast, true),
              HasSubstr("the program's flags have"));
  EXPECT_EQ(FastMathNote("y = tanhf(x);", "ex2.approx.ftz.f32 %f1, %f2;", fast), "");
  EXPECT_EQ(FastMathNote("asm(\"tanh.approx.f32 %0, %1;\"); // tanhf", ptx, fast), "");
}

}  // namespace
}  // namespace cupel::build
