// SPDX-License-Identifier: Apache-2.0
#include "emu/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/dtype.h"

namespace cupel::emu {
namespace {

GlobalMemory Make() {
  auto memory = GlobalMemory::Create();
  EXPECT_TRUE(memory.has_value());
  return std::move(*memory);
}

TEST(GlobalMemory, FindsExactlyTheBytesOfEachBuffer) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(100, 0, true, "argument 0");
  const uint64_t b = *memory.Allocate(1 << 20, 1, false, "temporary 1");
  EXPECT_EQ(a % kBufferAlignment, 0u);
  EXPECT_EQ(b % kBufferAlignment, 0u);
  EXPECT_GE(b - (a + 100), kRedZone);
  EXPECT_EQ(memory.Find(a - 1), nullptr);
  EXPECT_EQ(memory.Find(a)->buffer, 0);
  EXPECT_EQ(memory.Find(a + 99)->name, "argument 0");
  EXPECT_EQ(memory.Find(a + 100), nullptr);
  EXPECT_EQ(memory.Find(b + (1 << 20) - 1)->buffer, 1);
  EXPECT_EQ(memory.Find(b + (1 << 20)), nullptr);
  EXPECT_EQ(memory.Find(0), nullptr);
  EXPECT_EQ(memory.Find(~uint64_t{0}), nullptr);
}

TEST(GlobalMemory, ContainsRejectsAccessesThatStickOutOrOverflow) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(64, 0, false, "x");
  EXPECT_TRUE(memory.Contains(a, 64));
  EXPECT_FALSE(memory.Contains(a, 65));
  EXPECT_FALSE(memory.Contains(a + 60, 8));
  EXPECT_FALSE(memory.Contains(a, ~uint64_t{0}));
}

TEST(GlobalMemory, AddressesDependOnSizesAndOrderOnly) {
  GlobalMemory first = Make();
  GlobalMemory second = Make();
  for (GlobalMemory* memory : {&first, &second}) {
    ASSERT_TRUE(memory->Allocate(1000, 0, false, "a"));
    ASSERT_TRUE(memory->Allocate(0, 1, false, "b"));
    ASSERT_TRUE(memory->Allocate(1 << 22, 2, false, "c"));
  }
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first.allocations()[i].begin, second.allocations()[i].begin);
  }
  const uint64_t begin = first.allocations()[2].begin;
  first.Reset();
  ASSERT_TRUE(first.Allocate(1000, 0, false, "a"));
  ASSERT_TRUE(first.Allocate(0, 1, false, "b"));
  EXPECT_EQ(*first.Allocate(1 << 22, 2, false, "c"), begin);
}

TEST(GlobalMemory, PoisonIsNanInEveryFloatingType) {
  GlobalMemory memory = Make();
  for (uint64_t seed : {0, 1, 2, 3, 4, 5, 77, 1234}) {
    memory.SetPoison(seed);
    const std::byte* host = memory.Host(*memory.Allocate(64, 0, false, "x"));
    for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      for (int64_t i = 0; i < 64 / SizeOf(dtype); ++i) {
        EXPECT_TRUE(std::isnan(LoadAsDouble(dtype, host, i))) << Name(dtype) << " seed " << seed;
      }
    }
  }
}

TEST(GlobalMemory, ResetPoisonsAgainWhatTheLastPlanLeft) {
  GlobalMemory memory = Make();
  std::byte* host = memory.Host(*memory.Allocate(4096, 0, false, "x"));
  std::memset(host, 7, 4096);
  memory.Reset();
  memory.SetPoison(9);
  host = memory.Host(*memory.Allocate(4096, 0, false, "x"));
  for (int64_t i = 0; i < 1024; ++i) ASSERT_TRUE(std::isnan(LoadAsDouble(DType::kF32, host, i)));
}

TEST(GlobalMemory, RedZonesAreReadableAndPoisoned) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(10, 0, false, "x");
  uint16_t before = 0;
  std::memcpy(&before, memory.Host(a - kRedZone), 2);
  EXPECT_EQ(before, memory.poison() & 0xffff);
  EXPECT_NE(memory.Host(a + 10 + kRedZone - 1)[0], std::byte{0});
}

TEST(GlobalMemory, DescribesAddressesForPeople) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(5116, 1, false, "argument 1");
  const uint64_t b = *memory.Allocate(64, 2, false, "temporary 2");
  EXPECT_EQ(memory.Describe(a + 8), "argument 1 + 8 bytes");
  EXPECT_EQ(memory.Describe(a + 5120), "argument 1 + 5120 bytes, 4 past its end");
  EXPECT_EQ(memory.Describe(b - 16), "16 bytes before the start of temporary 2");
  EXPECT_EQ(memory.Describe(4), "null pointer + 4 bytes");
  EXPECT_EQ(memory.Describe(0x1234567), "address 0x1234567, far from every buffer");
}

TEST(GlobalMemory, RefusesMoreThanTheMachineHas) {
  GlobalMemory memory = Make();
  auto address = memory.Allocate(uint64_t{1} << 45, 0, false, "temporary 3");
  ASSERT_FALSE(address.has_value());
  EXPECT_EQ(address.error().code, ErrorCode::kEnvironment);
  EXPECT_NE(address.error().message.find("temporary 3"), std::string::npos);
  EXPECT_FALSE(memory.Allocate(~uint64_t{0}, 0, false, "y").has_value());
}

TEST(GlobalMemory, SymbolsAreFoundByName) {
  GlobalMemory memory = Make();
  memory.BindSymbol("kTable", 64);
  memory.BindSymbol("alpha", 32);
  EXPECT_EQ(memory.SymbolAddress("kTable"), 64u);
  EXPECT_EQ(memory.SymbolAddress("alpha"), 32u);
  EXPECT_EQ(memory.SymbolAddress("beta"), std::nullopt);
}

}  // namespace
}  // namespace cupel::emu
