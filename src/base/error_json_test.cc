// SPDX-License-Identifier: Apache-2.0
#include "base/error_json.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace cupel {
namespace {

TEST(ErrorJson, EveryCodeRoundTrips) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const Json json = ErrorToJson({code, "m", "r"});
    EXPECT_EQ(ErrorCodeNamed(json.at("code").get<std::string>()), code) << json.dump();
  }
  EXPECT_EQ(ErrorCodeNamed("of a later cupel"), ErrorCode::kInternal);
}

}  // namespace
}  // namespace cupel
