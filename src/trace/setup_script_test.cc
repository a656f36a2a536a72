// Runs small setup.py files with this machine's PyTorch. Reported as skipped if there is none.
// SPDX-License-Identifier: Apache-2.0
#include "trace/setup_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "device/device.h"
#include "oracle/python.h"
#include "os/temp_dir.h"

namespace cupel::trace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kImports[] =
    "import glob, os, pathlib\n"
    "from setuptools import setup, find_packages\n"
    "from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CppExtension\n";

class SetupScriptTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cache_ = std::make_unique<os::TempDir>(*os::TempDir::Create());
    PoolOptions options;
    options.zygote = fs::path(CUPEL_SOURCE_DIR) / "src/trace/py/zygote.py";
    options.tracer = options.zygote.parent_path();
    options.cache = cache_->path();
    pool_ = std::make_unique<PythonPool>(options);
  }
  static void TearDownTestSuite() {
    pool_.reset();
    cache_.reset();
  }
  void SetUp() override {
    const auto python = oracle::FindPython("", cache_->path() / "pythons.json");
    if (!python) GTEST_SKIP() << python.error().ToString();
    for (const char* name :
         {"csrc/a.cu", "csrc/b.cu", "csrc/deep/c.cu", "csrc/m.cpp", "README.md"}) {
      fs::create_directories((folder_.path() / name).parent_path());
      std::ofstream(folder_.path() / name) << "secret\n";
    }
  }

  std::variant<SetupExtension, record::Refusal> Run(const std::string& script) {
    std::ofstream(folder_.path() / "setup.py") << kImports << script;
    auto outcome = RunSetup(folder_.path() / "setup.py", *pool_, device::All().front(), {});
    if (!outcome) {
      ADD_FAILURE() << outcome.error().ToString();
      return SetupExtension{};
    }
    return std::move(*outcome);
  }
  SetupExtension Extension(const std::string& script) {
    auto outcome = Run(script);
    if (const auto* refusal = std::get_if<record::Refusal>(&outcome)) {
      ADD_FAILURE() << refusal->code << " " << refusal->where << " " << refusal->message;
      return {};
    }
    return std::get<SetupExtension>(outcome);
  }
  record::Refusal RefusalOf(const std::string& script) {
    auto outcome = Run(script);
    if (std::holds_alternative<SetupExtension>(outcome)) {
      ADD_FAILURE() << "not refused";
      return {};
    }
    return std::get<record::Refusal>(outcome);
  }

  os::TempDir folder_ = *os::TempDir::Create();
  static std::unique_ptr<os::TempDir> cache_;
  static std::unique_ptr<PythonPool> pool_;
};
std::unique_ptr<os::TempDir> SetupScriptTest::cache_;
std::unique_ptr<PythonPool> SetupScriptTest::pool_;

TEST_F(SetupScriptTest, ReturnsWhatTheExtensionIsMadeOf) {
  const SetupExtension extension = Extension(R"py(
here = os.path.dirname(os.path.abspath(__file__))
text = open(os.path.join(here, "README.md")).read()
setup(name="op", packages=find_packages(), long_description=text,
      ext_modules=[CppExtension("op._cpu", ["csrc/m.cpp"]),
                   CUDAExtension(name="op._C", sources=sorted(glob.glob(os.path.join(here, "csrc/*.cu"))) + ["csrc/m.cpp"],
                                 include_dirs=[os.path.join(here, "csrc"), "/opt/include"],
                                 define_macros=[("A", None), ("B", 2)],
                                 extra_compile_args={"cxx": ["-O3", "-DHOST"], "nvcc": ["--use_fast_math"]})],
      cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
)py");
  EXPECT_EQ(extension.name, "op._C");
  EXPECT_THAT(extension.sources, ElementsAre("csrc/a.cu", "csrc/b.cu", "csrc/m.cpp"));
  EXPECT_THAT(extension.include_dirs, ElementsAre("csrc", "/opt/include"));
  EXPECT_THAT(extension.flags, ElementsAre("--use_fast_math", "-DHOST", "-DA", "-DB=2"));
}

TEST_F(SetupScriptTest, FindsFilesInOtherWays) {
  const char* kSources[] = {
      "glob.glob('csrc/**/*.cu', recursive=True)",
      "sorted(str(p) for p in pathlib.Path(__file__).resolve().parent.rglob('*.cu'))",
      "sorted(pathlib.Path('csrc').glob('*.cu')) + [pathlib.Path('csrc/deep/c.cu')]",
      "['csrc/' + n for n in os.listdir('csrc') if n.endswith('.cu')] + ['csrc/deep/c.cu']"};
  for (const char* sources : kSources) {
    const auto extension = Extension(std::string("if __name__ == '__main__':\n  setup(ext_modules=["
                                                 "CUDAExtension('op', ") +
                                     sources + ", extra_compile_args=['-O2'])])\n");
    EXPECT_THAT(extension.sources, ElementsAre("csrc/a.cu", "csrc/b.cu", "csrc/deep/c.cu"))
        << sources;
  }
}

TEST_F(SetupScriptTest, ReadsSmallFiles) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name) << text;
  };
  write("csrc/version.py", "__version__ = '1.2'\n");
  write("csrc/long.txt", std::string(100'000, 'x'));
  const SetupExtension extension = Extension(R"py(
exec(open("csrc/version.py").read())
assert pathlib.Path("csrc/version.py").read_text() == open("csrc/version.py", "rb").read().decode()
assert open("csrc/a.cu").read() == "" and open("csrc/long.txt").read() == ""
setup(name="op", version=__version__,
      ext_modules=[CUDAExtension("op" + __version__, ["csrc/a.cu"])])
)py");
  EXPECT_EQ(extension.name, "op1.2");
}

TEST_F(SetupScriptTest, KnowsWhatPublishedScriptsAskFor) {
  const SetupExtension extension = Extension(R"py(
import subprocess, setuptools
from wheel.bdist_wheel import bdist_wheel
from torch.utils.cpp_extension import CUDA_HOME
class Cached(bdist_wheel):
    pass
text = subprocess.check_output([CUDA_HOME + "/bin/nvcc", "-V"], universal_newlines=True).split()
release = text[text.index("release") + 1].split(",")[0]
assert int(release.split(".")[0]) >= 11 and setuptools.__version__
setup(ext_modules=[CUDAExtension("op", ["csrc/a.cu"])], cmdclass={"bdist_wheel": Cached})
)py");
  EXPECT_EQ(extension.name, "op");
}

TEST_F(SetupScriptTest, RefusesScriptsWithoutOneExtension) {
  record::Refusal refusal = RefusalOf(
      "setup(ext_modules=[CUDAExtension(n, ['csrc/a.cu']) for n in ('first', 'second')])\n");
  EXPECT_TRUE(refusal.unsupported);
  EXPECT_THAT(refusal.message, HasSubstr("2 extensions with .cu files (first, second)"));
  refusal = RefusalOf("setup(ext_modules=[CppExtension('op', ['csrc/m.cpp'])])\n");
  EXPECT_THAT(refusal.message, HasSubstr("no extension with a .cu file"));
  refusal = RefusalOf("x = 1\n");
  EXPECT_THAT(refusal.message, HasSubstr("does not call setup()"));
  refusal = RefusalOf("\nraise ValueError('broken')\n");
  EXPECT_EQ(refusal.code, "unsupported_api");  // it says nothing about the kernel
  EXPECT_TRUE(refusal.unsupported);
  EXPECT_THAT(refusal.message, HasSubstr("cannot follow setup.py (ValueError: broken)"));
  EXPECT_EQ(refusal.where, "setup.py:5");
}

TEST_F(SetupScriptTest, LocksHostileScripts) {
  for (const char* attack :
       {"import subprocess; subprocess.run(['true'])\n", "import socket; socket.socket()\n",
        "os.fork()\n", "os.open('stolen', os.O_WRONLY | os.O_CREAT)\n"}) {
    const record::Refusal refusal = RefusalOf(attack);
    EXPECT_EQ(refusal.code, "unsupported_api") << attack << refusal.message;
    EXPECT_THAT(refusal.message, HasSubstr("PermissionError")) << attack;
  }
  // The folder itself is not visible, only its names.
  const record::Refusal hidden =
      RefusalOf("os.stat('" + (folder_.path() / "csrc/a.cu").string() + "')\n");
  EXPECT_EQ(hidden.code, "unsupported_api");
  EXPECT_EQ(RefusalOf("os._exit(0)\n").code, "host_crash");
  EXPECT_EQ(RefusalOf("os.write(3, b'x' * 100)\nos._exit(0)\n").code, "host_crash");
  EXPECT_EQ(
      RefusalOf("setup(ext_modules=[CUDAExtension('op', ['a.cu'], include_dirs=['x' * 5000])])\n")
          .code,
      "host_crash");
}

}  // namespace
}  // namespace cupel::trace
