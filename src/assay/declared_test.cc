// SPDX-License-Identifier: Apache-2.0
#include "assay/declared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/hash.h"
#include "os/temp_dir.h"

namespace cupel::assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

task::Setting Of(const char* id, const char* init, const char* inputs) {
  task::Setting setting;
  setting.id = id;
  setting.init = Json::parse(init);
  setting.inputs = Json::parse(inputs);
  return setting;
}

bool Covers(const std::string& line, const char* inputs) {
  const auto parsed = Declaration::Parse("// cupel:supports " + line + "\n", "k.cu");
  const auto* declaration = std::get_if<Declaration>(&parsed);
  EXPECT_NE(declaration, nullptr) << line;
  return declaration != nullptr && declaration->Covers(Of("", R"({"method": "xavier"})", inputs));
}

TEST(Declared, MatchesValuesRangesAndLists) {
  EXPECT_TRUE(Covers("rows=64", R"({"rows": 64})"));
  EXPECT_FALSE(Covers("rows=64", R"({"rows": 640})"));
  EXPECT_TRUE(Covers("rows=1,128..1024,4096", R"({"rows": 128})"));
  EXPECT_TRUE(Covers("rows=1,128..1024,4096", R"({"rows": 1024})"));
  EXPECT_TRUE(Covers("rows=1,128..1024,4096", R"({"rows": 4096})"));
  EXPECT_FALSE(Covers("rows=1,128..1024,4096", R"({"rows": 127})"));
  EXPECT_TRUE(Covers("method=xavier rows=1..9", R"({"rows": 2})"));
  EXPECT_FALSE(Covers("method=kaiming rows=1..9", R"({"rows": 2})"));
  EXPECT_FALSE(Covers("columns=1..9", R"({"rows": 2})"));
  EXPECT_TRUE(Covers("rows=*8", R"({"rows": 24})"));
  EXPECT_FALSE(Covers("rows=*8", R"({"rows": 25})"));
  EXPECT_TRUE(Covers("rows=3,16..64*8", R"({"rows": 64})"));
  EXPECT_FALSE(Covers("rows=3,16..64*8", R"({"rows": 72})"));
  EXPECT_TRUE(Covers("flag=true eps=1e-05", R"({"flag": true, "eps": 1e-05})"));
}

TEST(Declared, LinesAreAlternativesAndOtherCommentsAreIgnored) {
  const auto parsed = Declaration::Parse(
      "#include <x>\n  //cupel:supports a=1 b=2\nint x; // cupel:supports a=3\n"
      "// cupel:supports\ta=4\r\n/* cupel:supports a=5 */\nconst char* s = \"cupel:supports\";\n",
      "k.cu");
  const auto& declaration = std::get<Declaration>(parsed);
  EXPECT_EQ(declaration.Text(), "a=1 b=2 or a=4");
  EXPECT_TRUE(declaration.Covers(Of("", "{}", R"({"a": 1, "b": 2})")));
  EXPECT_FALSE(declaration.Covers(Of("", "{}", R"({"a": 1, "b": 3})")));
  EXPECT_TRUE(declaration.Covers(Of("", "{}", R"({"a": 4})")));
  EXPECT_FALSE(declaration.Covers(Of("", "{}", R"({"a": 3})")));
}

TEST(Declared, IgnoresStringsAndBlockComments) {
  const auto parsed = Declaration::Parse(
      "const char* s = R\"(\n// cupel:supports batch_size=64\n)\";\n"
      "/*\n// cupel:supports batch_size=32\n*/\n",
      "k.cu");
  ASSERT_TRUE(std::holds_alternative<Declaration>(parsed));
  EXPECT_TRUE(std::get<Declaration>(parsed).IsEmpty());
}

TEST(Declared, RejectsMalformedLinesWithTheirPlace) {
  for (const char* line :
       {"", "rows", "rows=", "=4", "rows=1,,2", "rows=4,", "rows=9..2", "rows=1..", "rows=..4",
        "rows=1..b", "ro(ws=1", "rows=\"4\"", "rows=1 2", "rows=1;system"}) {
    const auto parsed =
        Declaration::Parse(std::string("\n// cupel:supports ") + line + "\n", "k.cu");
    const auto* reason = std::get_if<records::Reason>(&parsed);
    ASSERT_NE(reason, nullptr) << line;
    EXPECT_EQ(reason->code, "bad_declaration");
    EXPECT_EQ(reason->where, "k.cu:2") << line;
    EXPECT_THAT(reason->message, HasSubstr("write e.g."));
  }
  const auto glued = Declaration::Parse("// cupel:supportsrows=1\n", "k.cu");
  EXPECT_TRUE(std::holds_alternative<records::Reason>(glued));
  const auto longest =
      Declaration::Parse("// cupel:supports a=" + std::string(5000, '1') + "\n", "k.cu");
  EXPECT_TRUE(std::holds_alternative<records::Reason>(longest));
}

class ClaimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::TempDir::Create();
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    settings_ = {Of("single-0", R"({"f": 10})", R"({"rows": 64})"),
                 Of("multi-0", R"({"f": 20})", R"({"rows": 4})"),
                 Of("heldout-0", R"({"f": 10})", R"({"rows": 1})")};
    settings_[2].derived = "rows=1";
  }

  std::variant<Claim, records::Reason> Read(const std::string& source) {
    return ReadAll({{"k.cu", source}});
  }
  std::variant<Claim, records::Reason> ReadAll(const std::vector<build::SourceFile>& files) {
    std::vector<const task::Setting*> asked;
    for (const task::Setting& setting : settings_) asked.push_back(&setting);
    return ReadClaim(files, asked);
  }

  std::optional<os::TempDir> folder_;
  std::vector<task::Setting> settings_;
};

TEST_F(ClaimTest, ReportsCoveredSettings) {
  const auto all = Read("int main() {}\n");
  EXPECT_EQ(std::get<Claim>(all).text, "");
  EXPECT_THAT(std::get<Claim>(all).covered, ElementsAre(true, true, true));
  const auto some = Read("// cupel:supports rows=1..64 f=10\n");
  EXPECT_EQ(std::get<Claim>(some).text, "judged only for rows=1..64 f=10: 2 of 3 settings");
  EXPECT_THAT(std::get<Claim>(some).covered, ElementsAre(true, false, true));
}

TEST_F(ClaimTest, RejectsClaimThatCoversNoListedSetting) {
  const auto none = Read("// cupel:supports rows=7\n");
  EXPECT_EQ(std::get<records::Reason>(none).code, "nothing_declared");
  // Settings that cupel derived are not listed by the task.
  const auto derived = Read("// cupel:supports rows=1\n");
  EXPECT_EQ(std::get<records::Reason>(derived).code, "nothing_declared");
  const auto unknown = Read("// cupel:supports row=64\n");
  EXPECT_EQ(std::get<records::Reason>(unknown).code, "bad_declaration");
  EXPECT_THAT(std::get<records::Reason>(unknown).message, HasSubstr("the settings have f, rows"));
}

TEST_F(ClaimTest, FilesDeclareTogether) {
  const auto some = ReadAll({{"a.cu", "int x;\n"},
                             {"b.cpp", "// cupel:supports rows=64\n"},
                             {"c.h", "// cupel:supports rows=4\n", false}});
  EXPECT_EQ(std::get<Claim>(some).text, "judged only for rows=64 or rows=4: 2 of 3 settings");
  EXPECT_THAT(std::get<Claim>(some).covered, ElementsAre(true, true, false));
  const auto bad = ReadAll({{"a.cu", "int x;\n"}, {"b.cpp", "\n// cupel:supports rows\n"}});
  EXPECT_EQ(std::get<records::Reason>(bad).where, "b.cpp:2");
}

TEST_F(ClaimTest, ChangedSourceIsAnError) {
  const auto file = folder_->path() / "k.cu";
  const std::string text = "// cupel:supports rows=64\n";
  std::ofstream(file) << text;
  const auto read = ReadBuilt(file, Sha256Hex(text));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name, "k.cu");
  EXPECT_EQ(read->text, text);
  EXPECT_FALSE(ReadBuilt(file, Sha256Hex("// the source that was built\n")));
}

}  // namespace
}  // namespace cupel::assay
