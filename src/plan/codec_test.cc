// SPDX-License-Identifier: Apache-2.0
#include "plan/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "base/random.h"
#include "plan/limits.h"

namespace cupel::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

View MakeView(int buffer, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  View view;
  view.address = {buffer, 0};
  view.shape = std::move(shape);
  view.strides = std::move(strides);
  return view;
}

TensorMap TiledMap() {
  TensorMap map;
  map.type = TensorMapType::kF16;
  map.rank = 2;
  map.dims = {uint64_t{1} << 32, 77};
  map.strides = {2048};
  map.box = {64, 256};
  map.element_strides = {1, 8};
  map.swizzle = Swizzle::k128B;
  return map;
}

TensorMap Im2colMap() {
  TensorMap map;
  map.type = TensorMapType::kF32;
  map.rank = 3;
  map.im2col = true;
  map.dims = {8, 9, 10};
  map.strides = {32, 288};
  map.element_strides = {1, 1, 1};
  map.l2_promotion = L2Promotion::k128B;
  map.fill = OobFill::kNan;
  map.lower = {-1};
  map.upper = {1};
  map.channels = 8;
  map.pixels = 64;
  return map;
}

/// One node of each kind, in an order with a fork and a join.
/// Every kind of argument. The first is also written.
Operator Called() {
  Operator work;
  work.name = "aten::some.overload";
  const auto text = [](std::string value) { return OperatorValue{std::move(value)}; };
  work.arguments = {{MakeView(1, {4, 4}, {4, 1})},
                    {},
                    {true},
                    {int64_t{-3}},
                    {0.5},
                    text("none"),
                    {std::vector<OperatorValue>{{MakeView(0, {4}, {1})}, {}, {int64_t{2}}}}};
  work.mutated = {0};
  work.results = {MakeView(1, {2, 2}, {2, 1}), {}};
  work.results[1].address.buffer = kNoneOutput;
  return work;
}

Plan Sample() {
  Plan plan;
  plan.function = "forward";
  plan.device = "h100";
  plan.returns_tuple = true;
  plan.buffers = {{BufferKind::kArgument, 4096, 0, ""},
                  {BufferKind::kTemporary, 1024, -1, ""},
                  {BufferKind::kWorkspace, 64, -1, ""},
                  {BufferKind::kSymbol, 128, -1, "_ZL6lookup", 3}};
  plan.buffers[0].changes = true;
  Launch launch;
  launch.kernel = "_Z3addPKfPfi";
  launch.image = 2;
  launch.grid = {8, 2, 1};
  launch.block = {256, 1, 1};
  launch.cluster = {2, 1, 1};
  launch.dynamic_shared = 70000;
  launch.cooperative = true;
  launch.parameters = std::string(20, '\0') + "\x7f";
  launch.relocations = {{0, {0, 16}}, {8, {1, -64}}};
  launch.parameters.resize(64 + 2 * kTensorMapBytes);
  launch.tensor_maps = {{64, {0, 1024}, TiledMap()}, {192, {1, 0}, Im2colMap()}};
  launch.lone_clusters = true;
  launch.places = {0, 8, 16, 20, 64, 192};
  Gemm gemm;
  gemm.transpose_a = true;
  gemm.m = 4, gemm.n = 8, gemm.k = 16, gemm.lda = 16, gemm.ldb = 16, gemm.ldc = 4;
  gemm.alpha = 0.1, gemm.beta = std::numeric_limits<double>::infinity();
  gemm.a = {0, 0}, gemm.b = {0, 256}, gemm.c = {1, 0};
  Gemm batched = gemm;
  batched.batch = 2;
  batched.pointers = {{{{0, 0}, {0, 0}, {1, 0}}}, {{{0, 0}, {0, 0}, {1, 128}}}};
  plan.nodes = {{Fill{{1, 0}, std::string(4, '\0'), 256}, {}},
                {launch, {0}},
                {Copy{{1, 8}, {0, 0}, 100}, {0}},
                {Upload{{3, 64}, std::string(16, '\1'), {{8, {2, 0}}}, {}}, {1, 2}},
                {CopyView{MakeView(1, {4, 4}, {4, 1}), MakeView(0, {4, 4}, {1, 0})}, {3}},
                {gemm, {4}},
                {batched, {5}},
                {Called(), {6}}};
  View none;
  none.address.buffer = kNoneOutput;
  plan.outputs = {MakeView(1, {16, 16}, {16, 1}), none, none, none};
  plan.numbers = {{1, int64_t{5}}, {2, 1.0}, {3, true}};
  return plan;
}

TEST(PlanCodec, RoundTripsEveryKindOfNode) {
  const Plan plan = Sample();
  const std::string text = DumpJson(ToJson(plan));
  const auto json = ParseJson(text, "plan");
  ASSERT_TRUE(json);
  const auto back = FromJson(*json, "plan");
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(DumpJson(ToJson(*back)), text);
}

TEST(PlanCodec, DescribesEachNodeInOneLine) {
  const std::string text = Describe(Sample());
  EXPECT_THAT(text,
              HasSubstr("launch add(float const*, float*, int) grid 8x2 block 256 shared "
                        "70000 cluster 2 cooperative [0]=argument 0 + 16 [8]=temporary 1 + -64 "
                        "[64]=map(argument 0 + 1024: float16 64x256 of 4294967296x77 "
                        "swizzle 128b)"));
  EXPECT_THAT(text, HasSubstr("return None"));
  Plan plan = Sample();
  plan.buffers[3].symbol = "t";  // extern "C" names must not be demangled as types
  EXPECT_THAT(Describe(plan), HasSubstr("-> t + 64"));
}

TEST(PlanCodec, NamesTheImageOfEqualKernelsAndOmitsImage0) {
  Plan plan = Sample();
  EXPECT_THAT(Describe(plan), Not(HasSubstr("image")));
  plan.nodes.push_back(plan.nodes[1]);
  std::get<Launch>(plan.nodes.back().work).image = 0;
  EXPECT_THAT(Describe(plan), HasSubstr("shared 70000 image 2 cluster"));
  EXPECT_THAT(Describe(plan), HasSubstr("shared 70000 cluster"));
  const Json json = ToJson(plan);
  EXPECT_EQ(json["nodes"][1]["image"], 2);
  EXPECT_EQ(json["buffers"][3]["image"], 3);
  EXPECT_FALSE(json["nodes"].back().contains("image"));
}

TEST(PlanCodec, RejectsImagesOutOfRange) {
  for (const int64_t image : {int64_t{-1}, int64_t{kMaxImages}, int64_t{1} << 32}) {
    for (const char* at : {"/nodes/1/image", "/buffers/3/image"}) {
      Json json = ToJson(Sample());
      json[Json::json_pointer(at)] = image;
      const auto plan = FromJson(json, "plan");
      ASSERT_FALSE(plan) << at << " " << image;
      EXPECT_THAT(plan.error().message, HasSubstr("\"image\" out of range"));
    }
  }
}

struct InvalidCase {
  const char* name;
  void (*breaks)(Plan&);
  const char* message;
};

TEST(PlanValidate, RejectsInconsistentPlans) {
  const InvalidCase cases[] = {
      {"copy past the end", [](Plan& p) { std::get<Copy>(p.nodes[2].work).bytes = 1017; }, "to"},
      {"copy size wraps", [](Plan& p) { std::get<Copy>(p.nodes[2].work).bytes = ~0ull - 7; },
       "too large"},
      {"fill count wraps", [](Plan& p) { std::get<Fill>(p.nodes[0].work).count = 1ull << 62; },
       "are not inside"},
      {"negative offset", [](Plan& p) { std::get<Copy>(p.nodes[2].work).from.offset = -1; },
       "from"},
      {"copy from null", [](Plan& p) { std::get<Copy>(p.nodes[2].work).from.buffer = -1; },
       "no such buffer"},
      {"odd pattern", [](Plan& p) { std::get<Fill>(p.nodes[0].work).pattern = "abc"; }, "pattern"},
      {"after itself", [](Plan& p) { p.nodes[3].after = {3}; }, "node 3"},
      {"after negative", [](Plan& p) { p.nodes[3].after = {-1}; }, "earlier"},
      {"relocation past the parameters",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).relocations[1].at = 313; }, "past the end"},
      {"overlapping relocations",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).relocations[1].at = 4; }, "overlap"},
      {"relocation to a missing buffer",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).relocations[1].target.buffer = 4; },
       "no such buffer"},
      {"tensor map past the parameters",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).tensor_maps[1].at = 193; }, "past the end"},
      {"overlapping tensor maps",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).tensor_maps[1].at = 191; }, "overlap"},
      {"relocation in a tensor map",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).relocations[1].at = 57; },
       "contains a relocation"},
      {"tensor map of a missing buffer",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).tensor_maps[0].address.buffer = 4; },
       "no such buffer"},
      {"tensor map at an unaligned address",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).tensor_maps[0].address.offset = 8; },
       "not aligned"},
      {"tensor map with a large box",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).tensor_maps[0].map.box[1] = 257; },
       "1 to 256"},
      {"parameters in another order",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).places[1] = 17; }, "places of parameters"},
      {"parameter past the end", [](Plan& p) { std::get<Launch>(p.nodes[1].work).places[5] = 320; },
       "places of parameters"},
      {"operator without a name", [](Plan& p) { std::get<Operator>(p.nodes[7].work).name.clear(); },
       "operator name"},
      {"tensor of an operator past the end",
       [](Plan& p) { std::get<Operator>(p.nodes[7].work).results[0].shape = {1000, 1000}; },
       "a tensor of an operator"},
      {"upload past the end", [](Plan& p) { std::get<Upload>(p.nodes[3].work).to.offset = 120; },
       "are not inside"},
      {"views of different shapes",
       [](Plan& p) { std::get<CopyView>(p.nodes[4].work).from.shape = {4, 3}; }, "shapes"},
      {"view past the end", [](Plan& p) { p.outputs[0].strides = {17, 1}; }, "are not inside"},
      {"view that wraps",
       [](Plan& p) {
         p.outputs[0].shape = {1 << 20, 1 << 20};
         p.outputs[0].strides = {int64_t{1} << 40, int64_t{1} << 40};
       },
       "are not inside"},
      {"negative size", [](Plan& p) { p.outputs[0].shape = {-1, 16}; }, "out of range"},
      {"unknown dtype", [](Plan& p) { p.outputs[0].dtype = static_cast<DType>(9); }, "dtype"},
      {"gemm leading dimension", [](Plan& p) { std::get<Gemm>(p.nodes[5].work).lda = 15; },
       "leading dimension"},
      {"gemm extent", [](Plan& p) { std::get<Gemm>(p.nodes[5].work).ldc = 1000; },
       "are not inside"},
      {"gemm pointers", [](Plan& p) { std::get<Gemm>(p.nodes[6].work).batch = 3; }, "pointers"},
      {"huge buffer", [](Plan& p) { p.buffers[0].bytes = ~0ull; }, "1 TiB"},
      {"argument without index", [](Plan& p) { p.buffers[0].argument = -1; }, "disagree"},
      {"kernel of a negative image", [](Plan& p) { std::get<Launch>(p.nodes[1].work).image = -1; },
       "image out of range"},
      {"kernel of an image past the limit",
       [](Plan& p) { std::get<Launch>(p.nodes[1].work).image = kMaxImages; }, "image out of range"},
      {"variable of an image past the limit", [](Plan& p) { p.buffers[3].image = kMaxImages; },
       "image out of range"},
      {"image of a temporary", [](Plan& p) { p.buffers[1].image = 1; }, "image and kind"},
      {"number of a tensor", [](Plan& p) { p.numbers[0].output = 0; }, "a number is for"},
      {"number of no output", [](Plan& p) { p.numbers[0].output = 9; }, "a number is for"},
      {"none with a shape", [](Plan& p) { p.outputs[1].shape = {1}; }, "None"},
  };
  ASSERT_TRUE(Validate(Sample()));
  for (const InvalidCase& invalid : cases) {
    Plan plan = Sample();
    invalid.breaks(plan);
    const auto status = Validate(plan);
    ASSERT_FALSE(status) << invalid.name;
    EXPECT_THAT(status.error().message, HasSubstr(invalid.message)) << invalid.name;
  }
}

TEST(PlanValidate, AcceptsEmptyExtentsAnywhere) {
  Plan plan = Sample();
  plan.outputs[0] = MakeView(-1, {0, 5}, {5, 1});
  std::get<Copy>(plan.nodes[2].work) = Copy{{-1, 0}, {-1, 0}, 0};
  EXPECT_TRUE(Validate(plan));
}

TEST(PlanCodec, RejectsMissingMembersAndSurvivesWrongTypes) {
  const Json good = ToJson(Sample());
  const auto damage = [&](const Json::json_pointer& at) {
    for (const Json& other : {Json(nullptr), Json("x"), Json(-5), Json::object(), Json(1e300)}) {
      Json bad = good;
      if (bad[at] == other) continue;
      bad[at] = other;
      (void)FromJson(bad, "plan");  // must return; the result does not matter
    }
  };
  const Json flat = good.flatten();
  for (const auto& item : flat.items()) damage(Json::json_pointer(item.key()));
  for (const auto& item : good.items()) {
    if (item.key() == "numbers") continue;  // absent if there are none
    Json bad = good;
    bad.erase(item.key());
    EXPECT_FALSE(FromJson(bad, "plan")) << item.key();
  }
  for (size_t i = 0; i < good["nodes"].size(); ++i) {
    for (const auto& item : good["nodes"][i].items()) {
      // Absent if they have their default, and from older plans.
      const bool is_optional = item.key() == "tensor_maps" || item.key() == "places" ||
                               item.key() == "image" || item.key() == "lone_clusters";
      if (is_optional) continue;
      Json bad = good;
      bad["nodes"][i].erase(item.key());
      EXPECT_FALSE(FromJson(bad, "plan")) << i << " " << item.key();
    }
  }
}

TEST(PlanCodec, SurvivesDamagedText) {
  const std::string text = DumpJson(ToJson(Sample()));
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = text;
    for (uint64_t k = random.Below(4) + 1; k > 0; --k) {
      bad[random.Below(bad.size())] = "0123456789-[]{},\"e."[random.Below(19)];
    }
    if (const auto json = ParseJson(bad, "plan")) (void)FromJson(*json, "plan");
  }
}

}  // namespace
}  // namespace cupel::plan
