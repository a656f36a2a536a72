// SPDX-License-Identifier: Apache-2.0
#include "llm/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "llm/keys.h"
#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::llm {
namespace {

template <typename T>
concept Streams = requires(std::ostream& out, const T& value) { out << value; };
static_assert(Streams<std::string> && !Streams<Secret>);
static_assert(!std::is_default_constructible_v<fmt::formatter<Secret>>);
static_assert(!std::is_copy_constructible_v<Secret> && !std::is_convertible_v<Secret, std::string>);

TEST(SecretTest, IsWipedAndRedacted) {
  auto bytes = std::make_unique<Secret>("sk-12345");
  Secret moved = std::move(*bytes);
  EXPECT_TRUE(bytes->empty());
  EXPECT_EQ(moved.Redact("a sk-12345 b sk-12345sk-12345"), "a [key] b [key][key]");
  EXPECT_EQ(Secret().Redact("x"), "x");
}

class KeysTest : public testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode) {
    EXPECT_TRUE(os::WriteFileAtomically(file_, text));
    EXPECT_EQ(chmod(file_.c_str(), mode), 0);
  }
  os::TempDir folder_ = os::TempDir::Create().value();
  std::filesystem::path file_ = folder_.path() / "keys";
};

TEST_F(KeysTest, ReadsOnlyPrivateFiles) {
  Write("# keys\nOTHER=x\n CUPEL_TEST_KEY = abc-1 \r\n", 0600);
  EXPECT_EQ(FindKey("CUPEL_TEST_KEY", file_)->Reveal(), "abc-1");
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    Write("CUPEL_TEST_KEY=abc-1\n", mode);
    const auto key = FindKey("CUPEL_TEST_KEY", file_);
    ASSERT_FALSE(key) << mode;
    EXPECT_NE(key.error().remedy.find("chmod 600"), std::string::npos);
    EXPECT_EQ(key.error().ToString().find("abc-1"), std::string::npos);
  }
}

TEST_F(KeysTest, PrefersTheEnvironment) {
  Write("CUPEL_TEST_KEY=file\n", 0600);
  setenv("CUPEL_TEST_KEY", "environment", 1);
  EXPECT_EQ(FindKey("CUPEL_TEST_KEY", file_)->Reveal(), "environment");
  unsetenv("CUPEL_TEST_KEY");
  EXPECT_EQ(FindKey("CUPEL_TEST_KEY", file_)->Reveal(), "file");
}

TEST_F(KeysTest, ErrorsHaveARemedyButNoKey) {
  const auto missing = FindKey("CUPEL_TEST_KEY", file_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().remedy.find("CUPEL_TEST_KEY"), std::string::npos);
  // A line end in a key would start a new header.
  setenv("CUPEL_TEST_KEY", "secret1\r\nX-Evil: 1", 1);
  const auto broken = FindKey("CUPEL_TEST_KEY", file_);
  unsetenv("CUPEL_TEST_KEY");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().ToString().find("secret1"), std::string::npos);
}

}  // namespace
}  // namespace cupel::llm
