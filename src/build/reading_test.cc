// Files that a source can make the compiler read: only those of the toolkit, the shim and the
// system's own folders. Real builds in the sandbox; skipped without a CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "build/build.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnusedModule =
    "extern \"C\" __attribute__((visibility(\"default\"))) int cupel_candidate_call() { return 0; "
    "}\n";
constexpr const char* kSecret = "static_assert(false, \"the secret was read\");\n";

class Reading : public testing::Test {
 protected:
  Reading() : folder_(*os::TempDir::Create()) {
    setenv("CUPEL_CACHE", (folder_.path() / "cupel-cache").c_str(), 1);
    options_.shim = folder_.path() / "shim";
    options_.include_roots = {folder_.path() / "library"};
    for (const fs::path& root : {options_.shim, options_.include_roots[0]}) {
      fs::create_directory(root);
    }
    std::ofstream(secret_ = folder_.path() / "secret.h") << kSecret;
    fs::create_symlink(secret_, options_.include_roots[0] / "leads_out.h");
    fs::create_symlink("../secret.h", options_.shim / "leads_out.h");
    fs::create_symlink("/", options_.include_roots[0] / "root");
  }
  void SetUp() override {
    if (const auto toolkit = FindToolkit(); !toolkit) GTEST_SKIP() << toolkit.error().ToString();
  }

  Outcome Compile(const std::string& text) {
    const fs::path source = folder_.path() / "kernel.cu";
    std::ofstream(source) << text << "\n" << kUnusedModule;
    auto outcome = Build(source, options_);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().ToString());
    return outcome ? std::move(*outcome) : Outcome(BuildFailure{});
  }

  os::TempDir folder_;
  fs::path secret_;
  Options options_;
};

TEST_F(Reading, IncludesCannotReadOtherFiles) {
  const std::string secret = secret_.string();
  for (const std::string& line :
       {"#include \"" + secret + "\"", std::string("#include \"../secret.h\""),
        std::string("#include <leads_out.h>"), "#include <root" + secret + ">",
        "#import \"" + secret + "\"", "#include_next \"" + secret + "\"",
        "#pragma GCC dependency \"" + secret + "\"", std::string("#include \"/dev/urandom\""),
        std::string("#include \"/proc/self/maps\"")}) {
    const Outcome outcome = Compile(line);
    const auto* failure = std::get_if<BuildFailure>(&outcome);
    ASSERT_NE(failure, nullptr) << line;
    EXPECT_NE(failure->message.find("No such file"), std::string::npos)
        << line << ": " << failure->message;
  }
}

TEST_F(Reading, OtherFilesAreInvisible) {
  const std::string secret = secret_.string();
  const Outcome outcome =
      Compile("#if __has_include(\"" + secret +
              "\") || __has_include(<leads_out.h>) || __has_include(\"/etc/passwd\") || "
              "__has_include(\"/proc/self/environ\") || __has_include(<root" +
              secret + ">)\n#error seen\n#endif");
  const auto* failure = std::get_if<BuildFailure>(&outcome);
  EXPECT_EQ(failure, nullptr) << failure->message;
}

TEST_F(Reading, AssemblerCannotReadOtherFiles) {
  const std::string secret = secret_.string();
  for (const std::string& text :
       {"asm(\".incbin \\\"" + secret + "\\\"\");", "asm(\".include \\\"" + secret + "\\\"\");",
        "const char data[] = {\n#embed \"" + secret + "\"\n};"}) {
    const Outcome outcome = Compile(text);
    const auto* failure = std::get_if<BuildFailure>(&outcome);
    ASSERT_NE(failure, nullptr) << text;
    EXPECT_EQ(failure->code, "compile_error");
    EXPECT_EQ(failure->message.find("the secret was read"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace cupel::build
