// SPDX-License-Identifier: Apache-2.0
#include "build/diagnostics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::build {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Severity = Diagnostic::Severity;

const std::vector<std::string> kOperators = {"conv2d", "matmul", "mean", "mm", "relu"};

BuildFailure ExplainText(const std::string& text) {
  return Explain(ParseDiagnostics(text, "/work/dir"), {"kernel.cu"}, {kOperators, true},
                 "it failed");
}

TEST(Diagnostics, ReportsAssemblerErrors) {
  const auto found = ParseDiagnostics(
      "/tmp/ccx.s: Assembler messages:\n/tmp/ccx.s:7: Error: file not found: /etc/passwd\n",
      "/tmp");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].message, "the assembler reports: file not found: /etc/passwd");
  EXPECT_TRUE(found[0].file.empty());
}

TEST(Diagnostics, ParsesFormatsOfAllTools) {
  const auto d = ParseDiagnostics(
      "kernel.cu(12): error: expected a \";\"\n"
      "  int x = 1\n"
      "           ^\n"
      "\n"
      "/work/dir/kernel.cu(14): warning #177-D: variable \"y\" was declared but never referenced\n"
      "kernel.cu:3:10: fatal error: foo.h: No such file or directory\n"
      "    3 | #include \"foo.h\"\n"
      "compilation terminated.\n"
      "ptxas kernel.ptx, line 40; error   : Arguments mismatch for instruction 'mov'\n"
      "ptxas error   : Entry function 'k' uses too much shared data (0x30000 bytes, 0xc000 max)\n"
      "ptxas info    : Used 8 registers\n"
      "1 error detected in the compilation of \"kernel.cu\".\n"
      "/usr/bin/ld: kernel.o: in function `f': undefined reference to `g'\n",
      "/work/dir");
  ASSERT_EQ(d.size(), 6u);
  EXPECT_EQ(d[0].file, "kernel.cu");
  EXPECT_EQ(d[0].line, 12);
  EXPECT_EQ(d[0].message, "expected a \";\"");
  EXPECT_EQ(d[1].severity, Severity::kWarning);
  EXPECT_EQ(d[1].file, "kernel.cu");
  EXPECT_EQ(d[1].line, 14);
  EXPECT_EQ(d[2].line, 3);
  EXPECT_EQ(d[2].message, "foo.h: No such file or directory");
  EXPECT_EQ(d[3].line, 40);
  EXPECT_EQ(d[3].message, "Arguments mismatch for instruction 'mov'");
  EXPECT_THAT(d[4].message, HasSubstr("too much shared data"));
  EXPECT_EQ(d[5].message, "undefined reference to `g'");
}

TEST(Diagnostics, RemovesDuplicates) {
  EXPECT_EQ(
      ParseDiagnostics("k.cu(1): error: a\nk.cu(1): error: a\nk.cu(2): error: a\n", "/w").size(),
      2u);
}

TEST(Diagnostics, IsBoundedOnHostileText) {
  std::string text(1 << 20, '(');
  text += "\n";
  for (int i = 0; i < 5000; ++i)
    text += "k.cu(" + std::to_string(i) + "): error: " + std::string(5000, 'x') + "\n";
  const auto d = ParseDiagnostics(text, "/w");
  EXPECT_EQ(d.size(), 200u);
  EXPECT_LE(d[0].message.size(), 1000u);
}

TEST(Diagnostics, PrefersErrorsInTheCandidateItself) {
  const BuildFailure failure = ExplainText(
      "/usr/include/c++/12/bits/stl_vector.h(100): error: no instance of constructor matches\n"
      "kernel.cu(7): error: identifier \"fooo\" is undefined\n");
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_EQ(failure.where, "kernel.cu:7");
  EXPECT_EQ(failure.message, "identifier \"fooo\" is undefined (and 1 more)");
  EXPECT_FALSE(failure.unsupported);
}

TEST(Diagnostics, NamesTheTypesOfOperands) {
  const BuildFailure failure = ExplainText(
      "kernel.cu(6): error: no operator \"*\" matches these operands\n"
      "            operand types are: const __half * const __half\n"
      "    if (i < n) y[i] = x[i] * x[i] + x[i];\n"
      "                           ^\n"
      "kernel.cu(9): error: no instance of function \"f\" matches the argument list\n"
      "            argument types are: (float)\n"
      "kernel.cu(6): error: no operator \"*\" matches these operands\n"
      "            operand types are: const __half * const __half\n");
  EXPECT_EQ(failure.message,
            "no operator \"*\" matches these operands: const __half * const __half (and 1 more)");
  EXPECT_THAT(failure.diagnostics.at(1).message, HasSubstr("list: (float)"));
  EXPECT_EQ(failure.diagnostics.size(), 2u);
}

TEST(Diagnostics, UsesFallbackWithoutErrors) {
  EXPECT_EQ(ExplainText("kernel.cu(1): warning: meh\n").message, "it failed");
}

TEST(Diagnostics, ListsEachFrameworkOperatorOnce) {
  const BuildFailure failure = ExplainText(
      "kernel.cu(2): error: namespace \"at\" has no member \"conv2d\"\n"
      "kernel.cu(3): error: identifier \"y\" is undefined\n"
      "kernel.cu(4): error: class \"at::Tensor\" has no member \"mean\"\n"
      "kernel.cu(9): error: namespace \"at\" has no member \"conv2d\"\n"
      "kernel.cu(10): error: namespace \"torch::nn\" has no member \"Linear\"\n"
      "kernel.cu(11): error: function \"at::operator/(const at::Tensor &, const c10::Scalar &)\" "
      "(declared at "
      "line 10 of d.h) cannot be referenced -- it is a deleted function\n"
      "kernel.cu(12): error: identifier \"matmul\" is undefined\n");
  EXPECT_EQ(failure.code, "unsupported_operator");
  EXPECT_TRUE(failure.unsupported);
  EXPECT_EQ(failure.where, "kernel.cu:2");
  EXPECT_EQ(failure.message,
            "unsupported: framework operator at::conv2d, line 2; at::Tensor::mean, line 4; "
            "torch::nn::Linear, line 10; at::operator/ (arithmetic on tensors), line 11; "
            "at::matmul, line 12");
  EXPECT_EQ(failure.diagnostics.size(), 7u);
}

TEST(Diagnostics, ReadsTheHostCompilersErrorsAboutOperators) {
  const BuildFailure failure = ExplainText(
      "b.cpp:2:9: error: 'conv2d' is not a member of 'at'; did you mean 'conv1d'?\n"
      "b.cpp:4:5: error: 'class at::Tensor' has no member named 'mean'\n"
      "b.cpp:5:5: error: 'const class at::Tensor' has no member named 'matmul'\n"
      "b.cpp:6:9: error: 'pad' is not a member of 'torch::nn::functional'\n"
      "b.cpp:7:9: error: use of deleted function 'at::Tensor at::operator/(const Tensor&, int)'\n"
      "b.cpp:8:9: error: 'matmul' was not declared in this scope\n");
  EXPECT_EQ(failure.code, "unsupported_operator");
  EXPECT_EQ(failure.where, "b.cpp:2");
  EXPECT_EQ(failure.message,
            "unsupported: framework operator at::conv2d, line 2; at::Tensor::mean, line 4; "
            "at::Tensor::matmul, line 5; torch::nn::functional::pad, line 6; at::operator/ "
            "(arithmetic on tensors), line 7; at::matmul, line 8");
  const auto unqualified =
      ParseDiagnostics("b.cpp:8:9: error: 'mm' was not declared in this scope\n", "/w");
  EXPECT_EQ(Explain(unqualified, {"b.cpp"}, {kOperators, false}, "").code, "compile_error");
  for (const char* own : {"b.cpp:2:9: error: 'emtpy' is not a member of 'at'\n",
                          "b.cpp:2:9: error: 'matmul' is not a member of 'mine'\n",
                          "b.cpp:2:9: error: 'class Tensor' has no member named 'mean'\n",
                          "b.cpp:2:9: error: 'my_kernel' was not declared in this scope\n",
                          "b.cpp:2:9: error: ' is not a member of 'at'\n",
                          "b.cpp:2:9: error: ' was not declared in this scope\n"}) {
    EXPECT_EQ(ExplainText(own).code, "compile_error") << own;
  }
}

TEST(Diagnostics, DistinguishesMisspellingsFromOperators) {
  EXPECT_EQ(ExplainText("kernel.cu(2): error: namespace \"torch\" has no member \"emtpy\"\n").code,
            "compile_error");
  EXPECT_EQ(ExplainText("kernel.cu(2): error: namespace \"std\" has no member \"mm\"\n").code,
            "compile_error");
  EXPECT_EQ(ExplainText("kernel.cu(2): error: class \"at::Tensor\" has no member \"szie\"\n").code,
            "compile_error");
}

TEST(Diagnostics, ReportsMissingPyTorchHeader) {
  const BuildFailure failure =
      ExplainText("kernel.cu:4:10: fatal error: ATen/native/Foo.h: No such file or directory\n");
  EXPECT_EQ(failure.code, "unsupported_api");
  EXPECT_EQ(failure.message, "unsupported: PyTorch header ATen/native/Foo.h, line 4");
  EXPECT_EQ(ExplainText("kernel.cu:4:10: fatal error: mine.h: No such file or directory\n").code,
            "compile_error");
  for (const char* header :
       {"cublasLt.h", "curand_kernel.h", "nvtx3/nvToolsExt.h", "cute/tensor.hpp"}) {
    const BuildFailure library = ExplainText(
        fmt::format("kernel.cu:4:10: fatal error: {}: No such file or directory\n", header));
    EXPECT_TRUE(library.unsupported) << header;
    EXPECT_THAT(library.message, HasSubstr(header));
  }
}

TEST(Diagnostics, ReportsCublasFunctionsThatTheShimLacks) {
  const std::string function = "kernel.cu(7): error: identifier \"cublasSgeam\" is undefined\n";
  const BuildFailure failure = ExplainText(function);
  EXPECT_EQ(failure.code, "unsupported_api");
  EXPECT_TRUE(failure.unsupported);
  EXPECT_EQ(failure.message, "unsupported: cuBLAS function cublasSgeam, line 7");
  // Without the header nothing of cuBLAS is known: the author's mistake.
  const std::string type = "kernel.cu(6): error: identifier \"cublasHandle_t\" is undefined\n";
  EXPECT_EQ(ExplainText(type + function).code, "compile_error");
  EXPECT_EQ(ExplainText("kernel.cu(7): error: identifier \"cublases\" is undefined\n").code,
            "compile_error");
}

TEST(Resources, ParsesPtxasOutput) {
  const auto kernels = ParseResources(
      "ptxas info    : 4 bytes gmem\n"
      "ptxas info    : Compiling entry function '_Z1aPi' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z1aPi\n"
      "    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 2048 "
      "bytes smem, "
      "360 bytes cmem[0]\n"
      "ptxas info    : Function properties for helper\n"
      "    99 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Compiling entry function '_Z1bPi' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z1bPi\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].kernel, "_Z1aPi");
  EXPECT_EQ(kernels[0].registers, 40);
  EXPECT_EQ(kernels[0].static_shared, 2048);
  EXPECT_EQ(kernels[0].local_bytes, 16);
  EXPECT_EQ(kernels[0].spill_stores, 24);
  EXPECT_EQ(kernels[0].spill_loads, 32);
  EXPECT_EQ(kernels[0].constant_bytes, 360);
  EXPECT_EQ(kernels[1].registers, 8);
  EXPECT_EQ(kernels[1].static_shared, 0);
  EXPECT_THAT(ParseResources("nonsense: Used 3 registers"), IsEmpty());
}

TEST(Resources, KeepsRemarksThatNameNoKernel) {
  const auto kernels = ParseResources(
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to "
      "determine "
      "register count at entry.\n"
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized "
      "due to insufficient register resources for the function '_Z1bPi'\n"
      "ptxas info    : Compiling entry function '_Z1aPi' for 'sm_90a'\n"
      "ptxas info    : Compiling entry function '_Z1bPi' for 'sm_90a'\n");
  ASSERT_EQ(kernels.size(), 2u);
  const std::string ignored =
      "'setmaxnreg' ignored; unable to determine register count at entry (C7508)";
  EXPECT_THAT(kernels[0].remarks, ElementsAre(ignored));
  EXPECT_THAT(
      kernels[1].remarks,
      ElementsAre("wgmma.mma_async instructions are serialized due to insufficient register "
                  "resources (C7512)",
                  ignored));
}

TEST(Resources, KeepsWhatPtxasSaysAboutLostSpeed) {
  const auto kernels = ParseResources(
      "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to non wgmma instructions defining accumulator registers of a wgmma between "
      "start and end of the pipeline stage in the function '_Z1aPi'\n"
      "ptxas info    : (C7517) warpgroup.wait is injected in around line 20398 by compiler to "
      "allow "
      "use of registers defined by GMMA in function '_Z1aPi'\n"
      "ptxas info    : (C7515) Potential Performance Loss: something in the function 'other'\n"
      "ptxas info    : Compiling entry function '_Z1aPi' for 'sm_90a'\n"
      "ptxas info    : Used 40 registers\n"
      "ptxas info    : Compiling entry function '_Z1bPi' for 'sm_90a'\n"
      "ptxas info    : Used 8 registers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_THAT(
      kernels[0].remarks,
      ElementsAre("wgmma.mma_async instructions are serialized due to non wgmma instructions "
                  "defining accumulator registers of a wgmma between start and end of the "
                  "pipeline stage (C7515)",
                  "warpgroup.wait is injected in around line 20398 by compiler to allow use "
                  "of registers defined by GMMA (C7517)"));
  EXPECT_THAT(kernels[1].remarks, IsEmpty());
  EXPECT_EQ(kernels[0].registers, 40);
}

}  // namespace
}  // namespace cupel::build
