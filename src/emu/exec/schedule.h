// Other fair orders of blocks and warps, to test whether a result depends on the order
// (engine::RunOptions::schedule). If blocks wait for each other, they are permuted only within
// windows. This is like a GPU, which starts blocks roughly in order: if a block waits for an
// earlier one, that one starts soon. Such blocks run side by side, and each turn ends after a
// random number of instructions. Otherwise every other schedule permutes all blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace cupel::emu {

inline constexpr uint64_t kScheduleWindow = 32;

/// A permutation of all blocks that is far from their order.
inline uint64_t AnyBlockInTurn(uint64_t turn, uint64_t blocks, uint64_t schedule) {
  Random random(schedule * 0xd6e8feb86659fd93u ^ blocks);
  uint64_t step = 1 + random.Below(blocks);
  while (std::gcd(step, blocks) != 1) step = step % blocks + 1;
  const auto product = static_cast<unsigned __int128>(turn) * step;
  return static_cast<uint64_t>((product + random.Below(blocks)) % blocks);
}

/// The number of the block that starts at position `turn`; a permutation of all blocks.
/// `blocks_wait`: blocks may wait for blocks with lower numbers.
inline uint64_t BlockInTurn(uint64_t turn, uint64_t blocks, uint64_t schedule, bool blocks_wait) {
  if (schedule == 0) return turn;
  if (!blocks_wait && schedule % 2 == 1) return AnyBlockInTurn(turn, blocks, schedule);
  const uint64_t window = turn / kScheduleWindow;
  const uint64_t first = window * kScheduleWindow;
  const uint64_t count = std::min(kScheduleWindow, blocks - first);
  std::array<uint8_t, kScheduleWindow> order{};
  for (uint64_t i = 0; i < count; ++i) order[i] = static_cast<uint8_t>(i);
  Random random(schedule * 0x94d049bb133111ebu ^ window);
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return first + order[turn - first];
}

/// Instructions that a warp may execute before the next warp's turn.
inline int64_t SliceLength(int64_t usual, uint64_t schedule, uint64_t turn) {
  if (schedule == 0) return usual;
  Random random(schedule * 0x9e3779b97f4a7c15u ^ turn);
  return 16 + static_cast<int64_t>(random.Below(uint64_t{1} << (4 + random.Below(9))));
}

/// Instructions after which a block is interrupted, to let others overtake it anywhere.
inline int64_t ShortTurn(Random& random) {
  return 1 + static_cast<int64_t>(random.Below(uint64_t{1} << random.Below(12)));
}

}  // namespace cupel::emu
