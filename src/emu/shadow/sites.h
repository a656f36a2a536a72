// The places in the program at which shadows of a run were reset or put in doubt, so that a verdict
// can name them. Each of the first 23 has its own bit, which propagates with the flags to all
// dependent values. All others share the last bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cupel::emu {

struct ShadowSite {
  std::string kernel, file, mnemonic;  // the line's first responsible instruction
  int line = 0;
  uint32_t op = 0;
};

class ShadowSites {
 public:
  static constexpr size_t kMost = 24;
  static constexpr int kShift = 8;  // of the first bit

  /// The bit of a place, new or known. Each line of a kernel is one place.
  uint32_t Bit(const ShadowSite& site);
  /// The places by bit number. The last has no name if there were too many.
  std::vector<ShadowSite> All() const;

 private:
  mutable std::mutex mutex_;
  std::vector<ShadowSite> sites_;
};

}  // namespace cupel::emu
