// SPDX-License-Identifier: Apache-2.0
#include "record/address_space.h"

#include <gtest/gtest.h>

#include <set>

namespace cupel::record {
namespace {

TEST(AddressSpace, SeedDeterminesAlignedAddresses) {
  AddressSpace memory;
  std::set<uint64_t> seen;
  uint64_t first = 0;
  for (const uint64_t seed : {1, 2, 3, 1}) {
    memory.BeginCall(seed);
    const Allocation* a = memory.Allocate(1000, Origin::kArgument);
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->base % 512, 0u);
    if (first == 0) first = a->base;
    if (seed == 1) {
      EXPECT_EQ(a->base, first);
    } else {
      EXPECT_TRUE(seen.insert(a->base).second);
    }
  }
}

TEST(AddressSpace, FindsAllocationInsideAtTheEndAndSlightlyOutside) {
  AddressSpace memory;
  memory.BeginCall(5);
  const Allocation* a = memory.Allocate(4096, Origin::kMalloc);
  const auto offset = [&](uint64_t address) { return memory.Find(address).value().offset; };
  EXPECT_EQ(offset(a->base), 0);
  EXPECT_EQ(offset(a->base + 4096), 4096);
  EXPECT_EQ(offset(a->base + 8192), 8192);
  EXPECT_EQ(offset(a->base - 16), -16);
  EXPECT_FALSE(memory.Find(a->base + (uint64_t{1} << 30)));
  EXPECT_FALSE(memory.InRange(reinterpret_cast<uint64_t>(&memory)));
}

TEST(AddressSpace, FindsFreedMemoryUntilTheNextCall) {
  AddressSpace memory;
  memory.BeginCall(5);
  const uint64_t base = memory.Allocate(64, Origin::kMalloc)->base;
  const uint64_t kept = memory.Allocate(64, Origin::kMalloc)->base;
  EXPECT_FALSE(memory.Free(base, Origin::kTensor));
  EXPECT_TRUE(memory.Free(base, Origin::kMalloc));
  EXPECT_FALSE(memory.Free(base, Origin::kMalloc));
  EXPECT_FALSE(memory.Find(base).value().allocation->live);
  EXPECT_EQ(memory.live_bytes(), 64u);
  memory.BeginCall(6);
  EXPECT_FALSE(memory.Find(base));
  EXPECT_TRUE(memory.Find(kept).value().allocation->live);
}

TEST(AddressSpace, RejectsSizesThatNoDeviceHas) {
  AddressSpace memory;
  EXPECT_EQ(memory.Allocate(~uint64_t{0}, Origin::kMalloc), nullptr);
  EXPECT_EQ(memory.Allocate(uint64_t{1} << 42, Origin::kMalloc), nullptr);
}

}  // namespace
}  // namespace cupel::record
