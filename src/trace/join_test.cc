// SPDX-License-Identifier: Apache-2.0
#include "trace/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

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
    const auto joined = Join(trace, {calls_, kernels_, device_, arguments_, nullptr});
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
  Kernels kernels_{{{3, "scale"}, MakeKernel()}};
  device::Description device_ = *device::Find("h100");
  std::vector<ArgumentStorage> arguments_{{4096, true}};
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
  kernels_.at({3, "scale"}).waits_for_launch = true;
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

/// Traces come from a process that ran hostile code.
class ForgedTraceTest : public testing::Test {
 protected:
  static Json View(int storage, int64_t offset, int64_t size) {
    return {{"at", {storage, offset}}, {"dtype", "float32"}, {"shape", {size}}, {"strides", {1}}};
  }
  /// An input, a parameter, and two temporaries of 1024 floats; a fill and a copy.
  static Json Trace() {
    Json storages = Json::array();
    for (const Json& argument : {Json(0), Json(1), Json(), Json()}) {
      storages.push_back({{"bytes", 4096}, {"argument", argument}, {"kept", false}});
    }
    return {{"storages", storages},
            {"steps",
             Json::array({{{"kind", "fill"}, {"to", View(2, 0, 1024)}, {"pattern", "AACAPw=="}},
                          {{"kind", "copy"}, {"to", View(3, 0, 1024)}, {"from", View(0, 0, 1024)}},
                          {{"kind", "call"},
                           {"call", 0},
                           {"storages", {3}},
                           {"made", Json::array({{1, 2}})}}})},
            {"prepared", 0},
            {"outputs", Json::array({View(2, 0, 1024)})},
            {"tuple", false}};
  }

  std::string Why(const Json& trace) {
    Part part;
    part.image = 2;
    part.plan.buffers = {{plan::BufferKind::kArgument, 4096, 0, ""},
                         {plan::BufferKind::kTemporary, 4096, -1, ""},
                         {plan::BufferKind::kSymbol, 64, -1, "table"}};
    plan::Launch launch;
    launch.kernel = "k";
    launch.parameters = std::string(16, '\0');
    launch.relocations = {{0, {0, 0}}, {8, {1, 0}}};
    part.plan.nodes = {{launch, {}}};
    calls_ = {part};
    const auto joined = Join(trace, {calls_, kernels_, device::All()[0], arguments_, nullptr});
    EXPECT_TRUE(joined) << joined.error().ToString();
    if (const auto* refusal = std::get_if<Refusal>(&*joined)) {
      return refusal->code + ": " + refusal->message;
    }
    plan_ = std::get<plan::Plan>(*joined);
    return "";
  }

  std::vector<Part> calls_;
  Kernels kernels_;
  std::vector<ArgumentStorage> arguments_{{4096, true}, {4096, false}};
  plan::Plan plan_;
};

TEST_F(ForgedTraceTest, JoinsAnHonestOne) {
  EXPECT_EQ(Why(Trace()), "");
  ASSERT_EQ(plan_.nodes.size(), 3u);
  EXPECT_EQ(std::get<plan::Copy>(plan_.nodes[1].work).bytes, 4096u);  // dense: bytes
  const auto& launch = std::get<plan::Launch>(plan_.nodes[2].work);
  EXPECT_EQ(launch.image, 2);
  EXPECT_EQ(launch.relocations[0].target.buffer, 3);
  EXPECT_EQ(launch.relocations[1].target.buffer, 2);
  EXPECT_EQ(plan_.nodes[2].after, std::vector<int>{1});
  ASSERT_EQ(plan_.buffers.size(), 5u);  // the variable of the image
  EXPECT_EQ(plan_.buffers[4].image, 2);
  Json prepared = Trace();
  prepared["prepared"] = 1;
  EXPECT_EQ(Why(prepared), "");
  EXPECT_EQ(plan_.prepared, 1);
}

TEST_F(ForgedTraceTest, RefusesWhatDoesNotFit) {
  const auto changed = [&](const char* pointer, const Json& value) {
    Json trace = Trace();
    trace[nlohmann::json_pointer<std::string>(pointer)] = value;
    return Why(trace);
  };
  const std::pair<const char*, Json> forged[] = {
      {"/prepared", 2},  // the copy of an input as work of the construction
      {"/storages/0/bytes", 8192},
      {"/storages/0/argument", 2},
      {"/storages/2/bytes", -1},
      {"/steps/0/kind", "launchpad"},
      {"/steps/0/pattern", "AACAPwAAgD8="},
      {"/steps/0/to/at", {9, 0}},
      {"/steps/0/to/at", {2, 4}},
      {"/steps/0/to/at", {-1, 0}},
      {"/steps/0/to/dtype", "float31"},
      {"/steps/0/to/shape", {1 << 30}},
      {"/steps/1/from", View(0, 0, 512)},
      {"/steps/1/to/strides", {int64_t{1} << 62}},
      {"/steps/2/call", 1},
      {"/steps/2/call", -1},
      {"/steps/2/storages", Json::array()},
      {"/steps/2/storages", {7}},
      {"/steps/2/made", Json::array({{1}})},
      {"/steps/2/made", Json::array({{1, 99}})},
      {"/outputs/0/at", {0, 1 << 20}},
      {"/outputs/0", "x"},
      {"/steps", Json()},
      {"/storages", Json()},
  };
  for (const auto& [pointer, value] : forged) {
    EXPECT_THAT(changed(pointer, value), testing::StartsWith("host_crash: ")) << pointer << value;
  }
  // Without PyTorch, operators are unsupported.
  EXPECT_THAT(changed("/steps/0", {{"kind", "operator"},
                                   {"name", "aten::relu"},
                                   {"arguments", Json::array()},
                                   {"results", Json::array()}}),
              testing::StartsWith("unsupported_operator: "));
}

}  // namespace
}  // namespace cupel::trace
