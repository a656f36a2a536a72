// Real builds with nvcc in the sandbox. They use a module header of their own, so that they do not
// depend on shim/. Skipped without a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#include "build/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/hash.h"
#include "build/cache.h"
#include "build/elf.h"
#include "os/mapped_file.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kModuleHeader =
    "extern \"C\" __attribute__((visibility(\"default\"))) inline __attribute__((used)) int\n"
    "cupel_candidate_call() { return 0; }\n";

constexpr const char* kKernel = R"(#include "module.h"
namespace { __device__ int counter; }
__global__ void scale(float* x, float by, int n) {
  __shared__ float tile[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) x[i] = tile[127 - threadIdx.x] * by;
  asm volatile("" ::: "memory");
  counter = n;
}
void forward(float* x, int n) { scale<<<(n + 127) / 128, 128>>>(x, 2, n); }
)";

class BuildTest : public testing::Test {
 protected:
  BuildTest() : folder_(*os::TempDir::Create()) {
    setenv("CUPEL_CACHE", (folder_.path() / "cupel-cache").c_str(), 1);
    options_.shim = folder_.path() / "shim";
    options_.cache = folder_.path() / "cache";
    fs::create_directory(options_.shim);
    std::ofstream(options_.shim / "module.h") << kModuleHeader;
  }
  void SetUp() override {
    if (const auto toolkit = FindToolkit(); !toolkit) GTEST_SKIP() << toolkit.error().ToString();
  }

  fs::path Write(const std::string& text, const std::string& name = "kernel.cu") {
    const fs::path path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  Image MustBuild(const fs::path& source) {
    const auto outcome = Build(source, options_);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().ToString();
      return {};
    }
    if (const auto* failure = std::get_if<BuildFailure>(&*outcome)) {
      ADD_FAILURE() << failure->code << " " << failure->where << " " << failure->message;
      return {};
    }
    return std::get<Image>(*outcome);
  }
  BuildFailure MustFail(const fs::path& source) {
    const auto outcome = Build(source, options_);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().ToString();
      return {};
    }
    const auto* failure = std::get_if<BuildFailure>(&*outcome);
    EXPECT_NE(failure, nullptr);
    return failure != nullptr ? *failure : BuildFailure{};
  }

  os::TempDir folder_;
  Options options_;
};

TEST_F(BuildTest, ProducesCodeResourcesAndNotes) {
  const Image image = MustBuild(Write(kKernel));
  EXPECT_THAT(image.ptx, HasSubstr(".visible .entry _Z5scalePffi("));
  EXPECT_THAT(image.ptx,
              HasSubstr("\"kernel.cu\""));   // the line table does not contain the build folder
  EXPECT_THAT(image.ptx, HasSubstr("ftz"));  // --use_fast_math
  ASSERT_EQ(image.resources.size(), 1u);
  EXPECT_EQ(image.resources[0].kernel, "_Z5scalePffi");
  EXPECT_EQ(image.resources[0].static_shared, 512);
  EXPECT_GT(image.resources[0].registers, 0);
  EXPECT_THAT(image.notes, Contains("uses inline assembly"));
  EXPECT_GT(fs::file_size(image.cubin), 1000u);
  const auto file = os::MappedFile::Open(image.shared_object);
  const auto object = ReadSharedObject(file->bytes());
  ASSERT_TRUE(object);
  EXPECT_THAT(object->undefined, Contains("__cudaRegisterFatBinary"));
  EXPECT_FALSE(image.from_cache);
}

TEST_F(BuildTest, ChoosesTheArchitectureThatTheSourceNeeds) {
  const std::string hopper =
      "#include \"module.h\"\n"
      "__global__ void k(int* x) { asm volatile(\"wg\" \"mma.fence.sync.aligned;\"); *x = 1; }\n"
      "void forward(int* x) { k<<<1, 128>>>(x); }\n";
  EXPECT_EQ(MustBuild(Write(kKernel)).arch, "sm_90");
  // The word is hidden from the scan of the text, so the compiler's error decides.
  const Image first = MustBuild(Write(hopper));
  EXPECT_EQ(first.arch, "sm_90a");
  EXPECT_THAT(first.ptx, HasSubstr(".target sm_90a"));
  options_.arch = "sm_90a";
  const Image same = MustBuild(Write(hopper));
  EXPECT_EQ(same.key, first.key);
  EXPECT_TRUE(same.from_cache);
  options_.arch = "sm_90";
  MustFail(Write(hopper));
}

TEST_F(BuildTest, ReadsTheNeedFromTextAndFlags) {
  EXPECT_EQ(ArchFor(options_, "int x;"), "sm_90");
  EXPECT_EQ(ArchFor(options_, "asm(\"wgmma.fence\");"), "sm_90a");
  EXPECT_EQ(ArchFor(options_, "#include <cute/tensor.hpp>"), "sm_90a");
  options_.flags = {"-gencode", "arch=compute_90a,code=sm_90a"};
  EXPECT_EQ(ArchFor(options_, "int x;"), "sm_90a");
  options_.device_major = 10;
  EXPECT_EQ(ArchFor(options_, "int x;"), "sm_100");
  EXPECT_EQ(ArchFor(options_, "asm(\"tcgen05.alloc\");"), "sm_100a");
  options_.arch = "sm_80";
  EXPECT_EQ(ArchFor(options_, "asm(\"wgmma.fence\");"), "sm_80");
}

TEST_F(BuildTest, SecondBuildUsesTheCache) {
  const fs::path source = Write(kKernel);
  const Image first = MustBuild(source);
  const auto start = std::chrono::steady_clock::now();
  const Image second = MustBuild(source);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(300));
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.key, first.key);
  EXPECT_EQ(second.ptx, first.ptx);
  EXPECT_EQ(second.notes, first.notes);
  EXPECT_EQ(second.resources[0].registers, first.resources[0].registers);

  // A modified entry is built again, with the same code.
  const auto mode = static_cast<fs::perms>(0644);
  fs::permissions(first.shared_object, mode);
  std::ofstream(first.shared_object, std::ios::app) << "x";
  const Image third = MustBuild(source);
  EXPECT_FALSE(third.from_cache);
  EXPECT_EQ(third.ptx, first.ptx);
  EXPECT_TRUE(MustBuild(source).from_cache);

  // Every input is part of the key.
  options_.flags = {"-DOTHER"};
  EXPECT_FALSE(MustBuild(source).from_cache);
  options_.flags.clear();
  std::ofstream(options_.shim / "module.h", std::ios::app) << "// changed\n";
  EXPECT_FALSE(MustBuild(source).from_cache);
}

TEST_F(BuildTest, WorksWithoutACache) {
  options_.cache.clear();
  fs::path object;
  {
    const Image image = MustBuild(Write(kKernel));
    object = image.shared_object;
    EXPECT_TRUE(fs::exists(object));
  }
  EXPECT_FALSE(fs::exists(object));
}

TEST_F(BuildTest, ReportsErrorsOfHostDeviceAndPtxas) {
  const std::string text = "#include \"module.h\"\nint f() { return undeclared; }\n";
  BuildFailure failure = MustFail(Write(text));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_EQ(failure.source_hash, Sha256Hex(text));
  EXPECT_EQ(failure.where, "kernel.cu:2");
  EXPECT_EQ(failure.message, "identifier \"undeclared\" is undefined");

  failure = MustFail(Write(
      "#include \"module.h\"\n__global__ void k() { asm(\"bogus.u32 x;\"); }\n", "odd name;.cu"));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_FALSE(failure.message.empty());

  failure = MustFail(Write("__global__ void k() {}\n"));
  EXPECT_EQ(failure.code, "no_module");
  EXPECT_THAT(failure.message, HasSubstr("PYBIND11_MODULE"));

  failure = MustFail(Write("#include <torch/nn.h>\n"));
  EXPECT_EQ(failure.code, "unsupported_api");
  EXPECT_TRUE(failure.unsupported);
}

TEST_F(BuildTest, HidesOtherFilesFromTheCompiler) {
  for (const char* line : {"#include \"/etc/passwd\"", "#include \"../secret.h\"",
                           "#include \"/proc/self/environ\""}) {
    std::ofstream(folder_.path() / "secret.h") << "int secret;\n";
    const BuildFailure failure = MustFail(Write(std::string(line) + "\n#include \"module.h\"\n"));
    EXPECT_THAT(failure.message, HasSubstr("No such file")) << line;
  }
  const BuildFailure failure = MustFail(Write(
      "#include \"module.h\"\nasm(\".incbin \\\"/etc/passwd\\\"\");\n__global__ void k() {}\n"));
  EXPECT_EQ(failure.code, "compile_error");
}

TEST_F(BuildTest, IncludeRootsAreVisible) {
  fs::create_directory(folder_.path() / "library");
  std::ofstream(folder_.path() / "library" / "extra.h") << "#define EXTRA 1\n";
  options_.include_roots = {folder_.path() / "library"};
  MustBuild(Write("#include \"module.h\"\n#include <extra.h>\nstatic_assert(EXTRA == 1, \"\");\n"));
}

TEST_F(BuildTest, EachOperatorHasItsHeader) {
  fs::create_directories(options_.shim / "ATen");
  fs::create_directories(options_.shim / "cupel");
  std::ofstream(options_.shim / "ATen" / "ATen.h") << "#pragma once\n#include \"module.h\"\n";
  std::ofstream(options_.shim / "cupel" / "framework_operators.txt") << "# names\nsum\nempty\n";
  MustBuild(
      Write("#include <ATen/ops/sum.h>\n#include <ATen/ops/from_blob.h>\n"
            "#include <ATen/ops/empty.h>\n__global__ void k(int* x) { *x = 1; }\n"));
  EXPECT_EQ(MustFail(Write("#include <ATen/ops/other.h>\n")).message,
            "unsupported: PyTorch header ATen/ops/other.h, line 1");
}

TEST_F(BuildTest, StopsEndlessCompilation) {
  options_.deadline = std::chrono::seconds(1);
  // Includes itself 2^150 times.
  const BuildFailure failure = MustFail(Write(
      "#if __INCLUDE_LEVEL__ < 150\n#include \"kernel.cu\"\n#include \"kernel.cu\"\n#endif\n"));
  EXPECT_EQ(failure.code, "build_timeout");
  EXPECT_EQ(failure.message, "the compiler did not finish within 1 s");
}

TEST_F(BuildTest, ReportsEnvironmentProblemsAsErrors) {
  EXPECT_EQ(Build(folder_.path() / "absent.cu", options_).error().code, ErrorCode::kNotFound);
  const fs::path source = Write(kKernel);
  options_.flags = {"-Xcompiler=-fplugin=x"};
  EXPECT_EQ(Build(source, options_).error().code, ErrorCode::kInvalidArgument);
  options_.flags.clear();
  const fs::path large = Write(std::string(5 << 20, ' '), "large.cu");
  EXPECT_EQ(Build(large, options_).error().code, ErrorCode::kInvalidArgument);
  setenv("CUPEL_NVCC", "/nonexistent/nvcc", 1);
  const auto outcome = Build(source, options_);
  unsetenv("CUPEL_NVCC");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kEnvironment);
}

TEST(Cache, EvictsLeastRecentlyUsed) {
  const auto folder = os::TempDir::Create();
  const auto store = [&](char digit) {
    Image image;
    image.key = std::string(64, digit);
    Artefacts artefacts{std::string(40000, 's'), "ptx", "cubin", {}};
    artefacts.sandbox.seccomp = artefacts.sandbox.mount_namespace = true;
    EXPECT_TRUE(StoreInCache(folder->path(), artefacts, image, 100000));
    fs::last_write_time(image.shared_object.parent_path() / "manifest.json",
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - digit));
    return image.key;
  };
  const std::string a = store('a'), b = store('b');
  EXPECT_TRUE(LoadFromCache(folder->path(), a));  // used now
  const std::string c = store('c');
  EXPECT_TRUE(LoadFromCache(folder->path(), a));
  EXPECT_FALSE(LoadFromCache(folder->path(), b));
  EXPECT_TRUE(LoadFromCache(folder->path(), c));
}

TEST(Elf, RejectsInvalidFiles) {
  const std::string text(5000, 'x');
  EXPECT_FALSE(ReadSharedObject(std::as_bytes(std::span<const char>(text))));
  EXPECT_FALSE(ReadSharedObject({}));
  // Every truncation of a real file must not crash.
  const auto self = os::MappedFile::Open("/lib/x86_64-linux-gnu/libm.so.6");
  if (!self) GTEST_SKIP() << "no libm to read";
  const auto bytes = self->bytes();
  EXPECT_THAT(ReadSharedObject(bytes)->defined, Contains("cosf"));
  for (size_t size = 0; size < bytes.size(); size += 1999)
    (void)ReadSharedObject(bytes.first(size));
}

TEST_F(BuildTest, AssemblesPtx) {
  const std::string ptx =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
      ".reg .b64 %rd<2>; .reg .b32 %r<2>; .shared .align 4 .b8 s[512];\n"
      "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.shared.u32 [s], %r1;\n"
      "st.global.u32 [%rd1], %r1; ret; }\n";
  options_.arch = "sm_90a";
  const auto first = BuildPtx(ptx, {}, options_);
  ASSERT_TRUE(first) << first.error().ToString();
  const auto* image = std::get_if<Image>(&*first);
  ASSERT_NE(image, nullptr) << std::get<BuildFailure>(*first).message;
  EXPECT_EQ(image->ptx, ptx);
  EXPECT_GT(fs::file_size(image->cubin), 0u);
  ASSERT_EQ(image->resources.size(), 1u);
  EXPECT_EQ(image->resources[0].kernel, "k");
  EXPECT_EQ(image->resources[0].static_shared, 512);
  EXPECT_FALSE(image->from_cache);

  const auto second = BuildPtx(ptx, {}, options_);
  EXPECT_TRUE(std::get<Image>(*second).from_cache);
  const auto other = BuildPtx(ptx, {"--fmad=false"}, options_);
  EXPECT_FALSE(std::get<Image>(*other).from_cache);

  const auto broken = BuildPtx(ptx + "nonsense\n", {}, options_);
  ASSERT_TRUE(broken) << broken.error().ToString();
  EXPECT_EQ(std::get<BuildFailure>(*broken).code, "compile_error");
  options_.arch = "--help";
  EXPECT_FALSE(BuildPtx(ptx, {}, options_));
}

}  // namespace
}  // namespace cupel::build
