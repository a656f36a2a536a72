// SPDX-License-Identifier: Apache-2.0
#include "record/surroundings.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cupel::record {
namespace {

constexpr size_t kStackBytes = 256 << 10, kAlignment = 16;
constexpr size_t kWipedBytes = 64 << 10;              // more stack than kernels' host code uses
constexpr size_t kSmallBytes = 512, kMaxPerSize = 7;  // limits of glibc's thread cache
constexpr size_t kLargeBytes = 64 << 10;              // less than what malloc maps separately

}  // namespace

Surroundings::Surroundings(Random& random)
    : stack_bytes_(kAlignment * random.Below(kStackBytes / kAlignment)) {
  const auto take = [&](size_t bytes) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
  };
  for (size_t bytes = kAlignment / 2; bytes <= kSmallBytes; bytes += kAlignment) {
    for (uint64_t count = random.Below(kMaxPerSize + 1); count > 0; --count) take(bytes);
  }
  take(1 + random.Below(kLargeBytes));
  for (size_t i = blocks_.size() - 1; i > 0; --i)
    std::swap(blocks_[i], blocks_[random.Below(i + 1)]);
}

[[gnu::noinline]] void Surroundings::WipeStack() {
  std::array<char, kWipedBytes> below;
  below.fill(0);
  asm volatile("" : : "r"(below.data()) : "memory");
}

}  // namespace cupel::record
