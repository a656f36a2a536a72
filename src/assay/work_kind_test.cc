// SPDX-License-Identifier: Apache-2.0
#include "assay/work_kind.h"

#include <gtest/gtest.h>

#include <cstring>

namespace cupel::assay {
namespace {

/// A plan of one launch with two words and a pointer as parameters.
plan::Plan With(uint32_t rows, uint32_t flag, uint32_t threads = 256) {
  plan::Launch launch;
  launch.kernel = "k";
  launch.grid = {rows, 1, 1};
  launch.block = {threads, 1, 1};
  launch.parameters = std::string(16, '\0');
  std::memcpy(launch.parameters.data(), &rows, sizeof rows);
  std::memcpy(launch.parameters.data() + 4, &flag, sizeof flag);
  launch.relocations = {{8, {0, 0}}};
  plan::Plan plan;
  plan.nodes.push_back({launch, {}});
  return plan;
}

/// Whether the two plans have one kind, among these.
bool Same(const plan::Plan& one, const plan::Plan& other) {
  WorkKinds kinds;
  for (const plan::Plan& plan : {one, other, With(100, 1), With(2000, 0)}) kinds.Add(plan);
  return kinds.Of(one) == kinds.Of(other);
}

TEST(WorkKind, SizesAreNoKindOfWork) {
  EXPECT_TRUE(Same(With(100, 1), With(2000, 1)));
  EXPECT_TRUE(Same(With(1, 1), With(2000, 1)));  // a size of one is no flag
}

TEST(WorkKind, FlagsBlocksAndAttributesAre) {
  const plan::Plan base = With(100, 1);
  EXPECT_FALSE(Same(base, With(100, 0)));
  EXPECT_FALSE(Same(base, With(100, 1, 128)));
  for (const auto& change : {+[](plan::Launch& launch) { launch.kernel = "other"; },
                             +[](plan::Launch& launch) { launch.grid.y = 3; },
                             +[](plan::Launch& launch) { launch.cluster.x = 2; },
                             +[](plan::Launch& launch) { launch.cooperative = true; },
                             +[](plan::Launch& launch) { launch.dynamic_shared = 100 << 10; }}) {
    plan::Plan other = base;
    change(std::get<plan::Launch>(other.nodes[0].work));
    EXPECT_FALSE(Same(base, other));
  }
}

TEST(WorkKind, OtherNodesCount) {
  plan::Plan filled = With(100, 1);
  filled.nodes.insert(filled.nodes.begin(), plan::Node{plan::Fill{}, {}});
  EXPECT_FALSE(Same(With(100, 1), filled));
  plan::Plan one = With(100, 1), other = one;
  plan::Gemm gemm;
  one.nodes.push_back({gemm, {}});
  gemm.transpose_b = true;
  other.nodes.push_back({gemm, {}});
  EXPECT_FALSE(Same(one, other));
}

}  // namespace
}  // namespace cupel::assay
