// The rules of plan/tensor_map.h against those of a real driver. Skipped if there is no GPU.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/tensor_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/json.h"
#include "base/random.h"
#include "gpu/device.h"
#include "plan/tensor_map_json.h"

namespace cupel::gpu {
namespace {

using plan::TensorMap;

TensorMap Valid(Random& random) {
  TensorMap map;
  map.type = static_cast<plan::TensorMapType>(random.Below(13));
  map.im2col = random.Below(4) == 0;
  map.rank = static_cast<int>(map.im2col ? 3 + random.Below(3) : 1 + random.Below(5));
  const auto bytes = static_cast<uint64_t>(plan::BitsOf(map.type)) / 8;
  uint64_t stride = bytes;
  for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) {
    map.dims[i] = (i == 0 ? 64 : 1) * (1 + random.Below(20));
    stride *= map.dims[i];
    if (i + 1 < static_cast<size_t>(map.rank)) map.strides[i] = stride;
    if (!map.im2col) map.box[i] = static_cast<uint32_t>(i == 0 ? 16 : 1 + random.Below(16));
    map.element_strides[i] = static_cast<uint32_t>(i == 0 ? 1 : 1 + random.Below(8));
  }
  if (map.im2col) map.channels = 16, map.pixels = static_cast<uint32_t>(1 + random.Below(1024));
  if (16 * bytes <= 128) map.swizzle = static_cast<plan::Swizzle>(random.Below(2) * 3);
  map.l2_promotion = static_cast<plan::L2Promotion>(random.Below(4));
  return map;
}

/// Changes one field to a value near a limit.
void Disturb(TensorMap& map, Random& random) {
  const auto any = [&] { return random.Below(static_cast<uint64_t>(map.rank)); };
  const auto pick = [&](std::initializer_list<uint64_t> values) {
    return *(values.begin() + static_cast<ptrdiff_t>(random.Below(values.size())));
  };
  switch (random.Below(9)) {
    case 0:
      map.dims[any()] = pick({0, 1, uint64_t{1} << 32, (uint64_t{1} << 32) + 1});
      break;
    case 1:
      if (map.rank > 1) {
        map.strides[random.Below(static_cast<uint64_t>(map.rank - 1))] =
            pick({0, 8, 16, 32, 48, uint64_t{1} << 40, (uint64_t{1} << 40) - 16});
      }
      break;
    case 2:
      if (!map.im2col) map.box[any()] = static_cast<uint32_t>(pick({0, 1, 2, 3, 8, 32, 256, 257}));
      break;
    case 3:
      if (const auto i = any(); i > 0) {
        map.element_strides[i] = static_cast<uint32_t>(pick({0, 1, 8, 9}));
      }
      break;
    case 4:
      map.swizzle = static_cast<plan::Swizzle>(random.Below(4));
      break;
    case 5:
      map.interleave = static_cast<plan::Interleave>(random.Below(3));
      break;
    case 6:
      map.fill = plan::OobFill::kNan;
      break;
    case 7:
      if (map.im2col) {
        const int spatial = map.rank - 2;
        const int values[] = {-32769, -32768, -129, -128, -17, -16, -1, 15, 16, 127, 128, 32767};
        auto& corner = random.Below(2) == 0 ? map.lower : map.upper;
        corner[random.Below(static_cast<uint64_t>(spatial))] = values[random.Below(12)];
      }
      break;
    default:
      if (map.im2col) {
        map.channels = static_cast<uint32_t>(pick({0, 1, 8, 256, 257}));
        map.pixels = static_cast<uint32_t>(pick({0, 1, 1024, 1025}));
      }
  }
}

TEST(TensorMapRules, AreTheDriversRules) {
  const auto driver = OpenDriver();
  if (!driver) GTEST_SKIP() << driver.error().message;
  const auto device = Device::Open(*driver, 0);
  if (!device) GTEST_SKIP() << device.error().message;
  int major = 0;
  constexpr int kMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  (*driver)->device_attribute(&major, kMajor, 0);
  if (major < 9) GTEST_SKIP() << "needs compute capability 9.0";
  Random random(11);
  int accepted = 0;
  std::string wrong;
  for (int i = 0; i < 20000; ++i) {
    TensorMap map = Valid(random);
    for (uint64_t k = random.Below(3); k > 0; --k) Disturb(map, random);
    DriverTensorMap encoded;
    const CuResult code = EncodeTensorMap(**driver, map, uint64_t{1} << 32, &encoded);
    const auto problem = plan::ProblemOf(map);
    accepted += code == 0 ? 1 : 0;
    if ((code == 0) == problem.empty() || wrong.size() > 10000) continue;
    plan::PlacedTensorMap placed{0, {}, map};
    wrong += fmt::format("driver {}, cupel \"{}\": {}\n", code, problem,
                         plan::TensorMapsToJson({placed}).dump());
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace cupel::gpu
