// Places in the program at which shadows of a run were reset or doubted, so that a verdict can name
// them. Each of the first 23 has a bit of its own, which goes along with the flags of whatever is
// computed from it; all others share the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cupel::emu {

struct ShadowSite {
  std::string kernel, file, mnemonic;  // the line's first instruction that is to blame
  int line = 0;
  uint32_t op = 0;
};

class ShadowSites {
 public:
  static constexpr size_t kMost = 24;
  static constexpr int kShift = 8;  // of the first bit

  /// The bit of a place, new or known: places on one line of one kernel are one.
  uint32_t Bit(const ShadowSite& site);
  /// What the bits stand for, by number; the last is unnamed when there were too many.
  std::vector<ShadowSite> All() const;

 private:
  mutable std::mutex mutex_;
  std::vector<ShadowSite> sites_;
};

}  // namespace cupel::emu
