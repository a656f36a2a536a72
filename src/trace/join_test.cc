// SPDX-License-Identifier: Apache-2.0
#include "trace/join.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "plan/codec.h"

namespace cupel::trace {
namespace {

using record::Refusal;

/// A kernel with a pointer, a number and a tensor map.
record::Kernel MakeKernel() {
  record::Kernel kernel;
  kernel.name = "scale";
  kernel.params = {{0, 8}, {8, 4}, {64, 128}};
  kernel.param_bytes = 192;
  kernel.registers = 32;
  kernel.max_threads = 128;
  return kernel;
}

constexpr char kLaunch[] = R"({"kind": "launch", "image": 3, "kernel": "scale", "grid": [4, 1, 1],
    "block": [128, 1, 1], "cluster": [1, 1, 1], "shared": 100000, "cooperative": false,
    "early": false, "parameters": [{"at": [0, 16]}, {"bytes": "AQAAAA=="}, {"at": [1, 0],
    "tensor_map": {"type": "float16", "dims": [64, 32], "strides": [128], "box": [64, 8],
    "element_strides": [1, 1], "interleave": "none", "swizzle": "128b", "l2_promotion": "128b",
    "fill": "zero"}}]})";

class JoinTest : public testing::Test {
 protected:
  /// The plan of one launch, whose members `changed` replace; the refusal's code and message, or
  /// "".
  std::string Why(const Json& changed) {
    Json step = *ParseJson(kLaunch, "test");
    step.update(changed);
    const Json trace{
        {"storages", Json::array({{{"bytes", 4096}, {"argument", 0}, {"kept", false}},
                                  {{"bytes", 4096}, {"argument", nullptr}, {"kept", false}}})},
        {"steps", Json::array({step})},
        {"prepared", 0},
        {"outputs",
         Json::array(
             {{{"at", {1, 0}}, {"dtype", "float32"}, {"shape", {1024}}, {"strides", {1}}}})},
        {"tuple", false}};
    const auto joined = Join(trace, {calls_, kernels_, device_, bytes_, nullptr});
    EXPECT_TRUE(joined) << joined.error().ToString();
    if (const auto* refusal = std::get_if<Refusal>(&*joined)) {
      return refusal->code + ": " + refusal->message;
    }
    plan_ = std::get<plan::Plan>(*joined);
    return "";
  }

  /// The launch with other parameters.
  static Json Parameters(const char* text) { return {{"parameters", *ParseJson(text, "test")}}; }

  std::vector<Part> calls_;
  std::map<int, record::Kernel> kernels_{{3, MakeKernel()}};
  device::Description device_ = *device::Find("h100");
  std::vector<uint64_t> bytes_{4096};
  plan::Plan plan_;
};

TEST_F(JoinTest, MakesALaunch) {
  ASSERT_EQ(Why(Json::object()), "");
  ASSERT_EQ(plan_.nodes.size(), 1u);
  const auto& launch = std::get<plan::Launch>(plan_.nodes[0].work);
  EXPECT_EQ(launch.kernel, "scale");
  EXPECT_EQ(launch.image, 3);
  EXPECT_EQ(launch.grid, (plan::Dim3{4, 1, 1}));
  EXPECT_EQ(launch.dynamic_shared, 100000u);
  ASSERT_EQ(launch.parameters.size(), 192u);
  EXPECT_EQ(launch.parameters[8], 1);
  ASSERT_EQ(launch.relocations.size(), 1u);
  EXPECT_EQ(launch.relocations[0], (plan::Relocation{0, {0, 16}}));
  ASSERT_EQ(launch.tensor_maps.size(), 1u);
  EXPECT_EQ(launch.tensor_maps[0].at, 64u);
  EXPECT_EQ(launch.tensor_maps[0].address, (plan::Address{1, 0}));
  EXPECT_EQ(launch.places, (std::vector<uint32_t>{0, 8, 64}));
}

TEST_F(JoinTest, RefusesWhatTheDeviceRefuses) {
  EXPECT_TRUE(Why({{"grid", {1, 70000, 1}}}).starts_with("illegal_launch: kernel scale"))
      << Why({});
  EXPECT_TRUE(Why({{"block", {256, 1, 1}}}).starts_with("illegal_launch: "));
  EXPECT_TRUE(Why({{"shared", 240000}}).starts_with("illegal_launch: "));
  EXPECT_TRUE(Why({{"cluster", {3, 1, 1}}}).starts_with("illegal_launch: "));
  EXPECT_TRUE(Why({{"early", true}}).starts_with("unordered_work: "));
  kernels_[3].waits_for_launch = true;
  EXPECT_EQ(Why({{"early", true}}), "");
}

TEST_F(JoinTest, RefusesIllegalTensorMaps) {
  Json parameters = (*ParseJson(kLaunch, "test"))["parameters"];
  parameters[2]["tensor_map"]["strides"] = {130};
  EXPECT_TRUE(Why({{"parameters", parameters}}).starts_with("illegal_launch: a tensor descriptor"));
}

TEST_F(JoinTest, RejectsDamagedLaunches) {
  const Json damaged[] = {
      {{"image", 2}},
      {{"image", (int64_t{1} << 32) + 3}},
      {{"grid", {1, 1}}},
      {{"grid", {-1, 1, 1}}},
      {{"shared", -1}},
      {{"cooperative", 1}},
      Parameters(R"([{"at": [0, 0]}, {"bytes": "AQAAAA=="}])"),                       // one less
      Parameters(R"([{"at": [9, 0]}, {"bytes": "AQAAAA=="}, {"at": [1, 0]}])"),       // unknown
      Parameters(R"([{"at": [0, 0]}, {"bytes": "AQAAAAA="}, {"at": [1, 0]}])"),       // five bytes
      Parameters(R"([{"at": [0, 0]}, {"at": [1, 0]}, {"at": [1, 0]}])"),              // no pointer
      Parameters(R"([{"at": [0]}, {"bytes": "AQAAAA=="}, {"at": [1, 0]}])"),          // no offset
      Parameters(R"([{"at": [0, 0], "tensor_map": {}}, {"bytes": "AQAAAA=="}, {}])")  // no map
  };
  for (const Json& change : damaged) {
    EXPECT_TRUE(Why(change).starts_with("host_crash: ")) << DumpJson(change);
  }
}

}  // namespace
}  // namespace cupel::trace
