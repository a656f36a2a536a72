// SPDX-License-Identifier: Apache-2.0

#include "emu/core/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

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

TEST(GlobalMemory, ContainsRejectsPartialAndOverflowingAccesses) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(64, 0, false, "x");
  EXPECT_TRUE(memory.Contains(a, 64));
  EXPECT_FALSE(memory.Contains(a, 65));
  EXPECT_FALSE(memory.Contains(a + 60, 8));
  EXPECT_FALSE(memory.Contains(a, ~uint64_t{0}));
}

std::vector<uint64_t> Addresses(GlobalMemory& memory, uint64_t seed) {
  memory.Reset();
  memory.Move(seed);
  std::vector<uint64_t> addresses;
  for (const uint64_t bytes : {1000, 0, 1 << 22}) {
    addresses.push_back(memory.Allocate(bytes, 0, false, "x").value_or(0));
    EXPECT_EQ(addresses.back() % kBufferAlignment, 0u);
    EXPECT_GE(addresses.back(), kLowestAddress);
    EXPECT_LE(addresses.back() + bytes, kHighestAddress);
    std::memset(memory.Host(addresses.back()), 1, bytes);
  }
  return addresses;
}

TEST(GlobalMemory, AddressesDependOnSeedSizesAndOrder) {
  GlobalMemory first = Make();
  GlobalMemory second = Make();
  const auto addresses = Addresses(first, 5);
  EXPECT_EQ(Addresses(second, 5), addresses);
  EXPECT_NE(Addresses(second, 6), addresses);
  EXPECT_EQ(Addresses(second, 5), addresses);
}

TEST(GlobalMemory, EveryBitOfAddressesAndDistancesVaries) {
  GlobalMemory memory = Make();
  uint64_t always = ~uint64_t{0}, never = always, always_between = always, never_between = always;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const auto addresses = Addresses(memory, seed);
    always &= addresses[2];
    never &= ~addresses[2];
    always_between &= addresses[1] - addresses[0];
    never_between &= ~(addresses[1] - addresses[0]);
  }
  const uint64_t up_to_46 = (uint64_t{1} << 47) - kBufferAlignment;
  const uint64_t up_to_19 = (uint64_t{1} << 20) - kBufferAlignment;
  EXPECT_EQ(always & up_to_46, 0u);
  EXPECT_EQ(never & up_to_46, 0u);
  EXPECT_EQ(always_between & up_to_19, 0u);
  EXPECT_EQ(never_between & up_to_19, 0u);
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

TEST(GlobalMemory, ResetPoisonsMemoryOfThePreviousPlan) {
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

TEST(GlobalMemory, DescribesAddresses) {
  GlobalMemory memory = Make();
  const uint64_t a = *memory.Allocate(5116, 1, false, "argument 1");
  const uint64_t b = *memory.Allocate(64, 2, false, "temporary 2");
  EXPECT_EQ(memory.Describe(a + 8), "argument 1 + 8 bytes");
  EXPECT_EQ(memory.Describe(a + 5120), "argument 1 + 5120 bytes, 4 past its end");
  EXPECT_EQ(memory.Describe(b - 16), "16 bytes before the start of temporary 2");
  EXPECT_EQ(memory.Describe(4), "null pointer + 4 bytes");
  EXPECT_EQ(memory.Describe(0x1234567), "address 0x1234567, far from every buffer");
}

TEST(GlobalMemory, RejectsMoreMemoryThanTheMachineHas) {
  GlobalMemory memory = Make();
  auto address = memory.Allocate(uint64_t{1} << 45, 0, false, "temporary 3");
  ASSERT_FALSE(address.has_value());
  EXPECT_EQ(address.error().code, ErrorCode::kEnvironment);
  EXPECT_NE(address.error().message.find("temporary 3"), std::string::npos);
  EXPECT_FALSE(memory.Allocate(~uint64_t{0}, 0, false, "y").has_value());
}

TEST(GlobalMemory, OnDemandReadsAsZerosAndMayExceedTheMachine) {
  auto memory = *GlobalMemory::Create();
  const uint64_t before = *memory.Allocate(1 << 20, 0, false, "before");
  std::memset(memory.Host(before), 0x5a, 1 << 20);
  memory.Reset();
  memory.OnDemand();
  constexpr uint64_t kBytes = uint64_t{40} << 30;
  const uint64_t first = *memory.Allocate(kBytes, 0, false, "first");
  const uint64_t second = *memory.Allocate(kBytes, 1, false, "second");
  for (const uint64_t at : {first, first + kBytes / 2, first + kBytes - 1, second}) {
    EXPECT_EQ(*memory.Host(at), std::byte{0});
  }
  *memory.Host(second - 1 + kBytes) = std::byte{7};
  // An index that has wrapped is in no buffer.
  EXPECT_EQ(memory.Find(second - (uint64_t{16} << 30)), nullptr);
  memory.Reset();
  const uint64_t after = *memory.Allocate(1 << 20, 0, false, "after");
  EXPECT_NE(*memory.Host(after), std::byte{0});  // poisoned again
}

TEST(GlobalMemory, FindsSymbolsByName) {
  GlobalMemory memory = Make();
  memory.BindSymbol("kTable", 64);
  memory.BindSymbol("alpha", 32);
  EXPECT_EQ(memory.SymbolAddress("kTable"), 64u);
  EXPECT_EQ(memory.SymbolAddress("alpha"), 32u);
  EXPECT_EQ(memory.SymbolAddress("beta"), std::nullopt);
}

}  // namespace
}  // namespace cupel::emu
