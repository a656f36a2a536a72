// SPDX-License-Identifier: Apache-2.0
#include "build/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build/source_scan.h"
#include "build/steps.h"

namespace cupel::build {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST(Flags, DefaultsMatchHarnessAndPyTorch) {
  EXPECT_THAT(
      *CandidateFlags({}),
      ElementsAre("-O3", "--use_fast_math", "-std=c++17", "-lineinfo", "--expt-relaxed-constexpr",
                  "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__",
                  "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"));
}

TEST(Flags, ExtraFlagsReplaceDefaults) {
  const auto flags = *CandidateFlags(
      {"-O2", "--no-fast-math", "-std=c++20", "-maxrregcount", "64", "-D", "TILE=16"});
  EXPECT_THAT(flags, Not(Contains("-O3")));
  EXPECT_THAT(flags, Not(Contains("--use_fast_math")));
  EXPECT_THAT(flags, Not(Contains("--no-fast-math")));
  EXPECT_THAT(flags, Not(Contains("-std=c++17")));
  EXPECT_THAT(flags, Contains("-maxrregcount=64"));
  EXPECT_THAT(flags, Contains("-DTILE=16"));
  EXPECT_THAT(*CandidateFlags({"-fmad=false", "-U__CUDA_NO_HALF_OPERATORS__", "-Xptxas", "-O1"}),
              Contains("-Xptxas=-O1"));
}

TEST(Flags, AcceptsWhatHopperKernelsPass) {
  const std::vector<std::string> extra = {
      "-gencode",
      "arch=compute_90a,code=sm_90a",
      "-lcuda",
      "--expt-extended-lambda",
      "-DNDEBUG",
      "--ptxas-options=-v,--register-usage-level=10,--warn-on-local-memory-usage",
      "-diag-suppress=177,2908",
      "--resource-usage",
      "-Xcompiler",
      "-fPIC",
      "--threads=4"};
  const auto flags = CandidateFlags(extra);
  ASSERT_TRUE(flags) << flags.error().ToString();
  EXPECT_EQ(*flags, *CandidateFlags({"--expt-extended-lambda", "-DNDEBUG", extra[5], extra[6]}));
  EXPECT_TRUE(NamesArch(extra, "sm_90a"));
  EXPECT_FALSE(NamesArch(extra, "sm_90"));
  EXPECT_FALSE(NamesArch({"-Dsm_90a"}, "sm_90a"));
}

TEST(Flags, RejectsUnsafeFlags) {
  for (const char* flag : {"-I/etc",
                           "-o",
                           "x.o",
                           "-include",
                           "-Xcompiler",
                           "-Xcompiler=-fplugin=x.so",
                           "-ccbin=/tmp/x",
                           "-L/tmp",
                           "-lfoo",
                           "-D",
                           "-DX=\"y\"",
                           "-DX=$(id)",
                           "-D1X",
                           "-D",
                           "@file",
                           "--options-file=x",
                           "-Xptxas=-o",
                           "-Xptxas=-v,-o",
                           "-Xptxas=-v,",
                           "-arch=sm_90 -o x",
                           "-gencode=arch=compute_90,code=sm_90;id",
                           "-lcudax",
                           "",
                           "-maxrregcount=1e9",
                           "-ftz=maybe",
                           "kernel2.cu",
                           "-O3;id",
                           "-run"}) {
    EXPECT_FALSE(CandidateFlags({flag})) << flag;
  }
}

TEST(Flags, ChecksFormOfArchitecture) {
  EXPECT_EQ(*VirtualArch("sm_90a"), "compute_90a");
  EXPECT_EQ(*VirtualArch("sm_100"), "compute_100");
  for (const char* arch :
       {"", "90", "sm_", "sm_9", "sm_90;id", "sm_90aa", "compute_90", "sm_9000"}) {
    EXPECT_FALSE(VirtualArch(arch)) << arch;
  }
}

TEST(Lean, OmitsOnlyUnusedParts) {
  EXPECT_THAT(LeanDefinitions("std::vector<int> v; torch::Tensor f();"),
              ElementsAre("-DCUPEL_LEAN_HALF", "-DCUPEL_LEAN_CUBLAS", "-DCUPEL_LEAN_STD",
                          "-DCUPEL_LEAN_STRING"));
  EXPECT_THAT(LeanDefinitions("__half x; cublasSgemm(); std::cout << 1;"), IsEmpty());
  EXPECT_THAT(LeanDefinitions("using namespace std; vector<int> v;"),
              ElementsAre("-DCUPEL_LEAN_HALF", "-DCUPEL_LEAN_CUBLAS"));
  EXPECT_THAT(LeanDefinitions("std :: unordered_map<int, int> m;"),
              Not(Contains("-DCUPEL_LEAN_STD")));
  EXPECT_THAT(LeanDefinitions("throw std::runtime_error(\"x\");"),
              Not(Contains("-DCUPEL_LEAN_STRING")));
  EXPECT_THAT(LeanDefinitions("y = __hadd(a, b);"), Not(Contains("-DCUPEL_LEAN_HALF")));
}

TEST(SourceScan, IgnoresCommentsAndStrings) {
  EXPECT_EQ(CodeOnly("a // b\n/* c\n */ d \"e\" 'f' 1'000 R\"x(\")\" y)x\" g"),
            "a     \n    \n    d         1'000 R            g");
  EXPECT_THAT(NotesFromSource("// asm volatile\nprintf(\"asm\"); int basm;"), IsEmpty());
  EXPECT_THAT(NotesFromSource("asm volatile(\"mov\"); cublasSgemm(h);"),
              ElementsAre("uses inline assembly", "uses cuBLAS"));
  CodeOnly("\"unfinished");
  CodeOnly("R\"(unfinished");
  CodeOnly("/* unfinished");
}

constexpr const char* kListing =
    "#$ _NVVM_BRANCH_=nvvm\n"
    "#$ TOP=/opt/cuda/bin/..\n"
    "#$ CICC_PATH=/opt/cuda/nvvm/bin\n"
    "#$ PATH=/opt/cuda/bin:/usr/bin\n"
    "#$ LIBRARIES=  \"-L/opt/cuda/lib\"\n"
    "#$ gcc -std=c++17 -E -x c++ \"-I/opt/cuda/include\" -D \"X\" \"k.cu\" -o \"k.cpp4.ii\" \n"
    "#$ cudafe++ --gen_module_id_file --module_id_file_name \"k.module_id\" \"k.cpp4.ii\" \n"
    "#$ gcc -D__CUDA_ARCH__=900 -E \"k.cu\" -o \"k.cpp1.ii\" \n"
    "#$ \"$CICC_PATH/cicc\" -arch compute_90 \"k.cpp1.ii\" -o \"k.ptx\"\n"
    "#$ ptxas -v -arch=sm_90 \"k.ptx\" -o \"k.sm_90.cubin\" \n"
    "#$ fatbinary --cmdline=\"-v \" \"--image3=kind=elf,sm=90,file=k.sm_90.cubin\" \n"
    "#$ rm k.fatbin\n"
    "#$ gcc -D__CUDA_ARCH__=900 -c -x c++ \"k.cudafe1.cpp\" -o \"k.o\" \n"
    "#$ g++ -fPIC \"k.o\" -shared -o \"k.so\" \n";

TEST(Steps, SplitsListingIntoHalves) {
  const auto steps = ParseDryrun(kListing);
  ASSERT_TRUE(steps);
  ASSERT_EQ(steps->host.size(), 2u);
  ASSERT_EQ(steps->device.size(), 4u);
  ASSERT_EQ(steps->join.size(), 1u);
  ASSERT_EQ(steps->link.size(), 1u);
  EXPECT_THAT(steps->host[0],
              ElementsAre("gcc", "-std=c++17", "-E", "-x", "c++", "-I/opt/cuda/include", "-D", "X",
                          "k.cu", "-o", "k.cpp4.ii"));
  EXPECT_EQ(steps->device[1][0], "/opt/cuda/nvvm/bin/cicc");
  EXPECT_EQ(steps->device[3][1], "--cmdline=-v ");
  EXPECT_EQ(steps->environment.at("PATH"), "/opt/cuda/bin:/usr/bin");
}

TEST(Steps, RejectsUnknownListing) {
  std::string unknown = kListing;
  EXPECT_FALSE(ParseDryrun(unknown + "#$ nvlink -arch=sm_90 k.o\n"));
  EXPECT_FALSE(ParseDryrun(unknown + "#$ sh -c \"x\" && y\n"));
  unknown.replace(unknown.find("$CICC_PATH"), 10, "$UNKNOWN_X");
  EXPECT_FALSE(ParseDryrun(unknown));
  EXPECT_FALSE(ParseDryrun(""));
}

}  // namespace
}  // namespace cupel::build
