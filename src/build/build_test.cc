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
#include "build/flags.h"
#include "build/sources.h"
#include "os/files.h"
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
  /// `source`: a file, or Sources. `Built`: an Image, or Images.
  template <typename Built, typename Source>
  Built MustBuildTo(const Source& source) {
    const auto outcome = Build(source, options_);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().ToString();
      return {};
    }
    if (const auto* failure = std::get_if<BuildFailure>(&*outcome)) {
      ADD_FAILURE() << failure->code << " " << failure->where << " " << failure->message;
      return {};
    }
    return std::get<Built>(*outcome);
  }
  Image MustBuild(const fs::path& source) { return MustBuildTo<Image>(source); }
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

TEST_F(BuildTest, KernelsThatTakeStructuresHaveAnObjectWithFilledVariables) {
  EXPECT_TRUE(MustBuild(Write(kKernel)).filled_object.empty());
  const fs::path source = Write(
      "#include \"module.h\"\n"
      "struct Two { int n; int* x; };\n"
      "__global__ void k(Two two) { two.x[0] = two.n; }\n"
      "void forward(int* x) { Two two; two.x = x; k<<<1, 1>>>(two); }\n");
  for (const bool cached : {false, true}) {
    const Image image = MustBuild(source);
    EXPECT_EQ(image.from_cache, cached);
    const auto usual = os::ReadFile(image.shared_object, 1 << 24);
    const auto filled = os::ReadFile(image.filled_object, 1 << 24);
    ASSERT_TRUE(usual && filled);
    EXPECT_NE(*usual, *filled);
  }
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

TEST_F(BuildTest, CompilesAsCpp20IfCpp17DoesNotDo) {
  const std::string newer = std::string(kKernel) +
                            "enum class Kind { kOne };\nKind kind() {\n  using enum Kind;\n"
                            "  return kOne;\n}\n";
  EXPECT_THAT(MustBuild(Write(newer)).flags, Contains("-std=c++20"));
  EXPECT_THAT(MustBuild(Write(newer)).flags, Contains("-std=c++20")) << "from the cache";
  EXPECT_THAT(MustBuild(Write(kKernel)).flags, Contains("-std=c++17"));
  options_.flags = {"-std=c++17"};
  EXPECT_EQ(MustFail(Write(newer)).code, "compile_error");
}

TEST_F(BuildTest, NamesAllMissingHeaders) {
  BuildFailure failure =
      MustFail(Write("#include \"module.h\"\n#include <ATen/native/Foo.h>\n#ifdef OTHER_GPU\n"
                     "#include <c10/hip/Foo.h>\n#endif\n#include \"mine.h\"\n"
                     "#  include <cutlass/cutlass.h>\n#include <ATen/native/Bar.h>\n"));
  EXPECT_EQ(
      failure.message,
      "unsupported: PyTorch header ATen/native/Foo.h, line 2; library header (--include FOLDER "
      "adds headers) cutlass/cutlass.h, line 7; PyTorch header ATen/native/Bar.h, line 8");
  EXPECT_EQ(failure.where, "kernel.cu:2");
  failure =
      MustFail(Write("#include \"first.h\"\n#include \"a b.h\"\n#include \"c$d.h\"\n"
                     "#include \"../../../../../../../etc/passwd\"\n"
                     "#include \"../../../../../../../etc/none\"\n"));
  EXPECT_EQ(failure.message, "first.h: No such file or directory") << "the others could probe";
  failure = MustFail(Write("#include \"first.h\"\n#include \"second.h\"\n"));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_EQ(failure.message, "first.h: No such file or directory; also second.h");
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
  EXPECT_EQ(failure.message,
            "the compiler did not finish within 1 s (--compile-limit SECONDS gives it more)");
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

// ---- several files ----

class SourcesTest : public BuildTest {
 protected:
  SourcesTest() { fs::create_directories(folder_.path() / "op"); }

  void WriteIn(const std::string& name, const std::string& text) {
    fs::create_directories((folder_.path() / "op" / name).parent_path());
    Write(text, "op/" + name);
  }
  fs::path op() const { return folder_.path() / "op"; }

  /// Two kernels in two files, with equal names of everything that is private to a file.
  void WriteTwo() {
    for (const char* name : {"add", "mul"}) {
      WriteIn(std::string(name) + ".cu",
              std::string("#include \"common.h\"\nstatic __constant__ float factors[4];\n"
                          "static float scale() { return 2; }\n"
                          "static __global__ void kernel(float* x) { *x = *x ") +
                  (name[0] == 'a' ? "+" : "*") +
                  " factors[0]; }\n"
                  "void " +
                  name +
                  "(float* x) {\n  float f = scale();\n"
                  "  cudaMemcpyToSymbol(factors, &f, sizeof f);\n  kernel<<<1, SIZE>>>(x);\n}\n");
    }
    WriteIn("binding.cpp",
            "#include \"module.h\"\n#ifdef __CUDACC__\n#error \"this is a C++ file\"\n#endif\n"
            "void add(float*);\nvoid mul(float*);\n"
            "static float scale() { return 3; }\n"
            "void forward(float* x) { add(x); if (scale() > 2) mul(x); }\n");
    WriteIn("common.h", "#pragma once\n#include \"detail/size.h\"\n");
    WriteIn("detail/size.h", "#define SIZE 32\n");
    WriteIn("other.h", "never included\n");
  }

  Sources MustOpen(const fs::path& kernel, const std::vector<fs::path>& more = {},
                   const std::vector<fs::path>& folders = {}) {
    const auto sources = OpenSources(kernel, more, folders);
    EXPECT_TRUE(sources) << sources.error().ToString();
    return sources ? *sources : Sources{};
  }
  Images MustBuildAll(const Sources& sources) { return MustBuildTo<Images>(sources); }
  BuildFailure MustFailAll(const Sources& sources) {
    const auto outcome = Build(sources, options_);
    if (!outcome || !std::holds_alternative<BuildFailure>(*outcome)) {
      ADD_FAILURE() << (outcome ? "it compiles" : outcome.error().ToString());
      return {};
    }
    return std::get<BuildFailure>(*outcome);
  }
  static std::vector<std::string> NamesOf(const Sources& sources) {
    std::vector<std::string> names;
    for (const SourceFile& file : sources.files) {
      names.push_back((file.is_compiled ? "" : "header ") + file.name);
    }
    return names;
  }
};

TEST_F(SourcesTest, FilesMayHaveTheSamePrivateNames) {
  WriteTwo();
  const Sources sources = MustOpen(op());
  EXPECT_THAT(NamesOf(sources), testing::ElementsAre("add.cu", "binding.cpp", "mul.cu",
                                                     "header common.h", "header detail/size.h"));
  const Images images = MustBuildAll(sources);
  ASSERT_EQ(images.size(), 2u);  // one for each .cu file
  EXPECT_EQ(images[0]->source, op() / "add.cu");
  EXPECT_EQ(images[1]->source_name, "mul.cu");
  EXPECT_THAT(images[0]->ptx, HasSubstr("add.ftz.f32"));
  EXPECT_THAT(images[0]->ptx, testing::Not(HasSubstr("mul.ftz.f32")));
  EXPECT_THAT(images[1]->ptx, HasSubstr("mul.ftz.f32"));
  EXPECT_THAT(images[1]->ptx, HasSubstr("\"mul.cu\""));
  ASSERT_EQ(images[0]->resources.size(), 1u);
  EXPECT_NE(images[0]->key, images[1]->key);
  EXPECT_EQ(images[0]->source_hash, HashOf(sources));
  const auto file = os::MappedFile::Open(images[0]->shared_object);
  ASSERT_TRUE(file);
  const auto object = ReadSharedObject(file->bytes());
  ASSERT_TRUE(object);
  EXPECT_THAT(object->defined, testing::IsSupersetOf({"_Z3addPf", "_Z3mulPf", "_Z7forwardPf"}));
}

TEST_F(SourcesTest, FilesOfOneNameMayBeInSeveralFolders) {
  WriteIn("a/k.cu",
          "#include \"module.h\"\n#include \"n.h\"\n__global__ void f(int* x) { *x = N; }\n");
  WriteIn("a/n.h", "#define N 1234\n");
  WriteIn("b/k.cu", "#include \"n.h\"\nnamespace b { __global__ void f(int* x) { *x = N; } }\n");
  WriteIn("b/n.h", "#define N 5678\n");
  WriteIn("b/k.cpp", "int k;\n");
  const Sources sources =
      MustOpen(op() / "a" / "k.cu", {op() / "b" / "k.cu", op() / "b" / "k.cpp"});
  EXPECT_THAT(NamesOf(sources),
              testing::ElementsAre("a/k.cu", "b/k.cu", "b/k.cpp", "header a/n.h", "header b/n.h"));
  const Images images = MustBuildAll(sources);
  ASSERT_EQ(images.size(), 2u);
  EXPECT_THAT(images[0]->ptx, HasSubstr("1234"));
  EXPECT_THAT(images[1]->ptx, HasSubstr("5678"));
}

TEST_F(SourcesTest, AllFilesArePartOfTheKey) {
  WriteTwo();
  const Images first = MustBuildAll(MustOpen(op()));
  const Images again = MustBuildAll(MustOpen(op()));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TRUE(again[0]->from_cache && again[1]->from_cache);
  EXPECT_EQ(again[1]->ptx, first[1]->ptx);
  WriteIn("other.h", "still not included\n");
  EXPECT_TRUE(MustBuildAll(MustOpen(op()))[0]->from_cache);
  WriteIn("detail/size.h", "#define SIZE 64\n");
  const Images changed = MustBuildAll(MustOpen(op()));
  EXPECT_FALSE(changed[0]->from_cache);
  EXPECT_NE(changed[0]->key, first[0]->key);
  EXPECT_NE(changed[0]->source_hash, first[0]->source_hash);
  // If one entry is lost, both images are built again.
  fs::remove_all(changed[1]->shared_object.parent_path());
  const Images rebuilt = MustBuildAll(MustOpen(op()));
  EXPECT_FALSE(rebuilt[0]->from_cache || rebuilt[1]->from_cache);
  // The order of linking is part of it, too.
  Sources sources = MustOpen(op());
  std::swap(sources.files[0], sources.files[2]);
  EXPECT_FALSE(MustBuildAll(sources)[0]->from_cache);
}

TEST_F(SourcesTest, SingleFileKeepsItsKey) {
  const fs::path source = Write(kKernel);
  const Image image = MustBuild(source);
  EXPECT_EQ(image.source_hash, Sha256Hex(kKernel));
  const Toolkit toolkit = *FindToolkit();
  const auto flags = *CandidateFlags({});
  Options options = options_;
  options.arch = "sm_90";
  EXPECT_EQ(image.key, *CacheKey({"kernel.cu", kKernel, &options, &toolkit, &flags}));
}

TEST_F(BuildTest, NamesWhatTheFileDoesNotDefine) {
  const BuildFailure failure = MustFail(
      Write("#include \"module.h\"\nvoid other(float*);\nvoid forward(float* x) { other(x); }\n"));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_EQ(failure.message,
            "other(float*) is declared and used, but the file does not define it; give the "
            "file that does with --sources");
}

TEST_F(SourcesTest, NamesWhatNoFileDefines) {
  WriteTwo();
  fs::remove(op() / "mul.cu");
  const BuildFailure failure = MustFailAll(MustOpen(op()));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_EQ(failure.message,
            "mul(float*) is declared and used, but none of the candidate's files defines it");
  EXPECT_EQ(failure.source_hash, HashOf(MustOpen(op())));
}

TEST_F(SourcesTest, SingleFileHasTheHeadersOfItsFolder) {
  WriteIn("common/scale.cuh", "constexpr float kScale = 2;\n");
  WriteIn("one.cu",
          "#include \"module.h\"\n#include \"common/scale.cuh\"\n"
          "__global__ void k(float* x) { *x = kScale; }\n"
          "void forward(float* x) { k<<<1, 1>>>(x); }\n");
  ASSERT_TRUE(HasSeveralFiles(op() / "one.cu", {}));
  const Sources sources = MustOpen(op() / "one.cu");
  ASSERT_EQ(sources.files.size(), 2u);
  EXPECT_EQ(sources.files[1].name, "common/scale.cuh");
  EXPECT_FALSE(sources.files[1].is_compiled);
  MustBuildAll(sources);
  // Not: headers of the system or of other folders, and what does not exist.
  for (const char* include : {"<common/scale.cuh>", "\"other.cuh\""}) {
    WriteIn("one.cu", std::string("#include ") + include + "\n");
    EXPECT_FALSE(HasSeveralFiles(op() / "one.cu", {})) << include;
  }
}

TEST_F(SourcesTest, HeadersAboveNeedAFolderThatTheUserNames) {
  WriteIn("common.h", "constexpr float kScale = 2;\n");
  WriteIn("below/one.cu", "#include \"../common.h\"\n");
  const fs::path kernel = op() / "below" / "one.cu";
  EXPECT_TRUE(HasSeveralFiles(kernel, {}));
  const auto alone = OpenSources(kernel, {}, {});
  ASSERT_TRUE(alone) << alone.error().ToString();
  ASSERT_EQ(alone->files.size(), 1u);
  EXPECT_EQ(alone->files[0].name, "one.cu");
  const std::vector<fs::path> folders{op()};
  const auto named = OpenSources(kernel, {}, folders);
  ASSERT_TRUE(named) << named.error().ToString();
  ASSERT_EQ(named->files.size(), 2u);
  EXPECT_EQ(named->files[0].name, "below/one.cu");
  EXPECT_EQ(named->files[1].name, "common.h");
}

TEST_F(SourcesTest, NamesWhatTwoFilesDefine) {
  WriteTwo();
  WriteIn("twice.cpp", "void add(float*) {}\n");
  const BuildFailure failure = MustFailAll(MustOpen(op()));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_THAT(failure.message, HasSubstr("multiple definition of `add(float*)'"));
}

TEST_F(SourcesTest, ExplainsThatDeviceFunctionsBelongToOneFile) {
  WriteIn("a.cu",
          "#include \"module.h\"\n__device__ float helper(float);\n"
          "__global__ void k(float* x) { *x = helper(*x); }\n");
  WriteIn("b.cu", "__device__ float helper(float x) { return x + 1; }\n");
  const BuildFailure failure = MustFailAll(MustOpen(op()));
  EXPECT_EQ(failure.code, "compile_error");
  EXPECT_THAT(failure.message, HasSubstr("the device function helper(float)"));
  EXPECT_THAT(failure.message, HasSubstr("in a header"));
}

TEST_F(SourcesTest, ReportsErrorsByFile) {
  WriteTwo();
  WriteIn("binding.cpp", "#include \"module.h\"\nint f() { return undeclared; }\n");
  BuildFailure failure = MustFailAll(MustOpen(op()));
  EXPECT_EQ(failure.where, "binding.cpp:2");
  EXPECT_THAT(failure.message, HasSubstr("undeclared"));
  WriteIn("binding.cpp", "int f();\n");
  failure = MustFailAll(MustOpen(op()));
  EXPECT_EQ(failure.code, "no_module");
  EXPECT_THAT(failure.message, HasSubstr("the files do not define a Python module"));
}

TEST_F(SourcesTest, HidesFilesThatWereNotRead) {
  WriteTwo();
  std::ofstream(folder_.path() / "secret.h") << "int secret;\n";
  for (const char* include : {"../secret.h", "hidden.h", "MACRO"}) {
    WriteIn("hidden.h", "#pragma once\n");
    const std::string line = include[0] == 'M'   ? "#define MACRO \"hidden.h\"\n#include MACRO\n"
                             : include[0] == '.' ? "#include \"../secret.h\"\n"
                                                 : "#define X(a) #a\n#include X(hidden.h)\n";
    WriteIn("common.h", "#define SIZE 32\n" + line);
    EXPECT_THAT(MustFailAll(MustOpen(op())).message, HasSubstr("No such file")) << include;
  }
}

TEST_F(SourcesTest, RefusesLinksAndUnsafeNames) {
  WriteTwo();
  std::ofstream(folder_.path() / "secret.h") << "int secret;\n";
  fs::remove(op() / "common.h");
  fs::create_symlink(folder_.path() / "secret.h", op() / "common.h");
  auto sources = OpenSources(op(), {}, {});
  ASSERT_FALSE(sources);
  EXPECT_THAT(sources.error().message, HasSubstr("common.h is a symbolic link to a file outside"));
  fs::remove(op() / "common.h");
  fs::create_symlink(op() / "detail" / "size.h", op() / "common.h");
  MustOpen(op());
  WriteIn("a b.cu", "");
  sources = OpenSources(op(), {}, {});
  ASSERT_FALSE(sources);
  EXPECT_THAT(sources.error().message, HasSubstr("a b.cu cannot be used"));
}

TEST_F(SourcesTest, LimitsFilesAndBytes) {
  WriteTwo();
  for (size_t i = 0; i < kMaxSourceFiles; ++i) WriteIn("f" + std::to_string(i) + ".cpp", "");
  auto sources = OpenSources(op(), {}, {});
  ASSERT_FALSE(sources);
  EXPECT_THAT(sources.error().message, HasSubstr("more than 64 files"));
  for (size_t i = 0; i < kMaxSourceFiles; ++i)
    fs::remove(op() / ("f" + std::to_string(i) + ".cpp"));
  MustOpen(op());
  WriteIn("common.h", std::string(kMaxSourceBytes - 1000, ' '));
  WriteIn("large.cpp", std::string(2000, ' ') + "\n#include \"common.h\"\n");
  EXPECT_FALSE(OpenSources(op(), {}, {}));
  EXPECT_FALSE(OpenSources(folder_.path() / "shim", {}, {}));  // no source
  fs::remove(op() / "add.cu");
  fs::remove(op() / "mul.cu");
  fs::remove(op() / "large.cpp");
  WriteIn("common.h", "");
  sources = OpenSources(op(), {}, {});
  ASSERT_FALSE(sources);
  EXPECT_THAT(sources.error().message, HasSubstr("has no .cu file"));
}

TEST_F(SourcesTest, HeadersMayBeInFoldersOfTheUser) {
  WriteIn("csrc/k.cu",
          "#include <deep/n.h>\n#include \"module.h\"\n__global__ void f(int* x) { *x = N; }\n");
  WriteIn("csrc/headers/deep/n.h", "#define N 1\n");
  WriteIn("csrc/more.cpp", "int more;\n");
  const Sources sources =
      MustOpen(op() / "csrc" / "k.cu", {op() / "csrc" / "more.cpp"}, {op() / "csrc" / "headers"});
  EXPECT_THAT(NamesOf(sources),
              testing::ElementsAre("k.cu", "more.cpp", "header headers/deep/n.h"));
  MustBuildAll(sources);
}

TEST_F(SourcesTest, BundlesKeepEverything) {
  WriteTwo();
  const Sources sources = MustOpen(op());
  const std::string text = Bundle(sources);
  const auto again = Unbundle(text);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(NamesOf(*again), NamesOf(sources));
  EXPECT_EQ(Bundle(*again), text);
  const fs::path file = Write(text, std::string("candidate") + kBundleSuffix);
  EXPECT_EQ(HashOf(MustOpen(file)), HashOf(sources));
  // Every damaged bundle is refused or is another candidate, and none crashes.
  for (size_t size = 0; size < text.size(); ++size) {
    const auto part = Unbundle(text.substr(0, size));
    EXPECT_TRUE(!part || Bundle(*part) != text) << size;
  }
  const auto with = [](const std::string& name) {
    return Unbundle("cupel.sources/1\nsource 1 k.cu\nx\nheader 1 " + name + "\ny\n");
  };
  EXPECT_TRUE(with("a/b.h"));
  for (const char* name : {"../b.h", "/etc/b.h", "a/../../b.h", "", "-o", "a b.h", "./b.h", "k.cu",
                           "cupel_generated/methods.h", "a//b.h", "a/", "a\\b.h"}) {
    EXPECT_FALSE(with(name)) << name;
  }
  EXPECT_FALSE(Unbundle("cupel.sources/1\nsource 99999999999999999999 k.cu\nx\n"));
  EXPECT_FALSE(Unbundle("cupel.sources/1\nfolder ../x\nsource 1 k.cu\nx\n"));
}

TEST_F(SourcesTest, ReadsTheFilesOfARecord) {
  WriteTwo();
  const Sources sources = MustOpen(op() / "mul.cu", {op() / "add.cu", op() / "binding.cpp"});
  std::vector<ListedFile> listed;
  for (const SourceFile& file : sources.files) {
    listed.push_back({file.name, Sha256Hex(file.text), file.is_compiled});
  }
  auto again = OpenListed(op() / "mul.cu", listed, sources.folders);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(HashOf(*again), HashOf(sources));
  again = OpenListed(op(), listed, sources.folders);
  ASSERT_TRUE(again) << again.error().ToString();
  fs::remove(op() / "detail" / "size.h");
  again = OpenListed(op(), listed, sources.folders);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("detail/size.h is missing"));
  listed[0].name = "../kernel.cu";
  EXPECT_FALSE(OpenListed(op(), listed, sources.folders));
}

TEST(Cache, EvictsLeastRecentlyUsed) {
  const auto folder = os::TempDir::Create();
  const auto store = [&](char digit) {
    Image image;
    image.key = std::string(64, digit);
    Artefacts artefacts;
    artefacts.shared_object = std::string(40000, 's');
    artefacts.ptx = "ptx";
    artefacts.cubin = "cubin";
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

TEST_F(BuildTest, CompilesDeviceCodeAlone) {
  const SourceFile source{"scale.cu",
                          "template <class T, int N> __global__ void scale(T* p) { *p *= N; }\n"
                          "extern \"C\" __global__ void plain(int n) {}\n"};
  const auto built = BuildDevice(source, {"scale<float, 3>", "scale<double,4>"}, options_);
  ASSERT_TRUE(built) << built.error().ToString();
  const auto* image = std::get_if<Image>(&*built);
  ASSERT_NE(image, nullptr) << std::get<BuildFailure>(*built).message;
  EXPECT_THAT(image->ptx, HasSubstr(".entry plain("));
  EXPECT_THAT(image->ptx, HasSubstr("_Z5scaleIfLi3EEvPT_"));
  EXPECT_THAT(image->ptx, HasSubstr("_Z5scaleIdLi4EEvPT_"));
  EXPECT_EQ(image->resources.size(), 3u);
  EXPECT_GT(fs::file_size(image->cubin), 0u);
  EXPECT_TRUE(
      std::get<Image>(*BuildDevice(source, {"scale<float, 3>", "scale<double,4>"}, options_))
          .from_cache);

  const auto broken =
      BuildDevice({"b.cu", "__global__ void k() {\n  nonsense;\n}\n"}, {}, options_);
  ASSERT_TRUE(broken) << broken.error().ToString();
  EXPECT_EQ(std::get<BuildFailure>(*broken).code, "compile_error");
  EXPECT_EQ(std::get<BuildFailure>(*broken).where, "b.cu:2");
}

}  // namespace
}  // namespace cupel::build
