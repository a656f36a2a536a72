// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

namespace cupel {
namespace {

TEST(ParseJson, ErrorNamesFileAndLine) {
  const auto result = ParseJson("{\"a\": 1,\n \"b\": }", "config.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("config.json"), std::string::npos);
  EXPECT_NE(result.error().message.find("line 2"), std::string::npos) << result.error().message;
}

TEST(ParseJson, RejectsDeepNesting) {
  EXPECT_TRUE(ParseJson(std::string(60, '[') + std::string(60, ']'), "x"));
  EXPECT_FALSE(ParseJson(std::string(1000000, '['), "x"));
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\"", "x"));
}

TEST(JsonAccess, ErrorNamesTheWrongMember) {
  const Json json = *ParseJson(R"({"n": 1.5, "big": 18446744073709551615, "list": [1, 2]})", "x");
  EXPECT_FALSE(JsonInt(json, "n", "x"));
  EXPECT_FALSE(JsonInt(json, "big", "x"));
  EXPECT_EQ(JsonIntList(json, "list", "x")->size(), 2u);
  EXPECT_EQ(JsonString(json, "missing", "plan.json").error().message,
            "plan.json: \"missing\" must be a string");
}

TEST(Base64, RoundTripsAndRejectsInvalidText) {
  for (size_t n = 0; n < 10; ++n) {
    std::string bytes;
    for (size_t i = 0; i < n; ++i) bytes.push_back(static_cast<char>(i * 37 + 250));
    EXPECT_EQ(*Base64Decode(Base64Encode(bytes), "x"), bytes);
  }
  EXPECT_FALSE(Base64Decode("ab$d", "x"));
  EXPECT_FALSE(Base64Decode("abc", "x"));
  EXPECT_FALSE(Base64Decode("ab\xEE\x64", "x"));
}

}  // namespace
}  // namespace cupel
