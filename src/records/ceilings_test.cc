// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "records/gpu_state.h"
#include "records/json.h"

namespace cupel::records {
namespace {

const records::Ceilings kSome{"NVIDIA H200", 4.1e12, 3.9e12, 60e12, 400e12, 700e12, 1.25, 65e12};

TEST(Ceilings, RoundTripThroughJson) {
  const auto json = ParseJson(DumpJson(ToJson(kSome)), "test");
  ASSERT_TRUE(json.has_value());
  const auto ceilings = ReadCeilings(*json, "ceilings");
  ASSERT_TRUE(ceilings.has_value()) << ceilings.error().message;
  EXPECT_EQ(ceilings->gpu, kSome.gpu);
  EXPECT_EQ(ceilings->read_bytes, kSome.read_bytes);
  EXPECT_EQ(ceilings->copy_bytes, kSome.copy_bytes);
  EXPECT_EQ(ceilings->fp32_flops, kSome.fp32_flops);
  EXPECT_EQ(ceilings->tf32_flops, kSome.tf32_flops);
  EXPECT_EQ(ceilings->bf16_flops, kSome.bf16_flops);
  EXPECT_EQ(ceilings->launch_us, kSome.launch_us);
  EXPECT_EQ(ceilings->fp64_flops, kSome.fp64_flops);
}

TEST(Ceilings, AcceptsZeroCublasRates) {
  records::Ceilings plain = kSome;
  plain.tf32_flops = plain.bf16_flops = 0;
  EXPECT_TRUE(ReadCeilings(ToJson(plain), "ceilings").has_value());
}

TEST(Ceilings, RejectsImpossibleRates) {
  const Json good = ToJson(kSome);
  for (const Json& bad :
       {Json{{"read_bytes", 0}}, Json{{"copy_bytes", 0}}, Json{{"read_bytes", -1e12}},
        Json{{"fp32_flops", -1}}, Json{{"launch_us", "1"}}, Json{{"gpu", 3}},
        Json{{"copy_bytes", std::numeric_limits<double>::quiet_NaN()}},
        Json{{"fp32_flops", std::numeric_limits<double>::infinity()}}}) {
    Json changed = good;
    changed.update(bad);
    EXPECT_FALSE(ReadCeilings(changed, "ceilings").has_value()) << bad.dump();
  }
  for (const auto& [key, value] : good.items()) {
    if (key == "fp64_flops") continue;  // earlier versions did not write it
    Json incomplete = good;
    incomplete.erase(key);
    EXPECT_FALSE(ReadCeilings(incomplete, "ceilings").has_value()) << "without " << key;
  }
  EXPECT_FALSE(ReadCeilings(Json::array(), "ceilings").has_value());
}

}  // namespace
}  // namespace cupel::records
