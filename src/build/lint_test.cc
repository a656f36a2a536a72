// Skipped without clang-tidy or the CUDA toolkit.
// SPDX-License-Identifier: Apache-2.0
#include "build/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::build {
namespace {

using testing::HasSubstr;

class LintTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!FindToolkit()) GTEST_SKIP() << "needs the CUDA toolkit";
    options_.shim = std::filesystem::path(CUPEL_SOURCE_DIR) / "shim";
    options_.allow_weak_sandbox = true;
  }
  Lint Of(const std::string& source) {
    const os::TempDir folder = os::TempDir::Create().value();
    const auto file = folder.path() / "some.cu";
    EXPECT_TRUE(os::WriteFileAtomically(file, source));
    auto lint = RunClangTidy(file, options_);
    EXPECT_TRUE(lint) << lint.error().ToString();
    return lint.value_or(Lint{});
  }
  Options options_;
};

TEST_F(LintTest, ReportsLinesOfRemarks) {
  const Lint lint =
      Of("__global__ void f(float* y, int n) {\n"
         "  int unused = n / 2;\n"
         "  double mean = n / 2;\n"
         "  y[0] = mean * 2.5;\n"
         "}\n");
  if (!lint.missing.empty()) GTEST_SKIP() << lint.missing;
  ASSERT_FALSE(lint.remarks.empty());
  bool found = false;
  for (const Diagnostic& remark : lint.remarks) {
    found =
        found || (remark.line == 3 && remark.message.find("integer-division") != std::string::npos);
  }
  EXPECT_TRUE(found);
}

TEST_F(LintTest, ReportsNoRemarksForUnreadableFile) {
  const Lint lint = Of("#include \"/etc/passwd\"\nint f( {\n");
  EXPECT_TRUE(lint.remarks.empty());
  EXPECT_FALSE(lint.missing.empty());
  EXPECT_THAT(lint.missing, testing::Not(HasSubstr("root:")));
}

}  // namespace
}  // namespace cupel::build
