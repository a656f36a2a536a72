// The wgmma operations of a block that are in progress. A product's values are computed when it is
// issued; until a wgmma.wait_group completes its group, it still reads its matrices in shared
// memory and owns its registers. This is where misuse is found: memory that is written too early,
// registers that are touched, a missing wgmma.fence, warps of a warpgroup that execute different
// products.
//
// A product belongs to the whole warpgroup: when the wait of one warp returns, all four warps have
// issued the product, and it no longer reads its matrices. Kernels rely on this when one thread of
// a warpgroup releases a buffer. (PTX ISA: wgmma.commit_group creates a group per warpgroup.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/warp.h"

namespace cupel::emu {

/// The operands of one product, as "@wgmma" executes it.
struct WarpgroupProduct {
  const Op* op = nullptr;
  uint64_t a = 0, b = 0;                // matrix descriptors; a is 0 if A is in registers
  uint32_t scale = 0;                   // the predicate scale-d of the warp's lanes
  uint64_t number = 0;                  // of the warp's products, from 1; the same in all warps
  uint32_t group = 0;                   // index of its group
  uint32_t warp = 0, clock = 0;         // the warp's index and clock at the issue
  std::array<uint32_t, kLanes> seen{};  // WarpClock::seen at the issue
  /// The first warp whose wait returned, and the clock of its stamps; 0: none yet.
  uint32_t reader = 0, read_until = 0;
};

/// How an instruction between products uses a register of a product (Code::lists of "@wgmma.use").
/// kSum: a floating-point addition reads it.
enum class RegisterTouch : uint8_t { kRead, kWrite, kConstant, kCopy, kSum };

class Warpgroups {
 public:
  explicit Warpgroups(size_t warps) : warps_(warps), groups_((warps + 3) / 4) {}

  /// The warp issues a product that updates the registers `sums` and reads `left`. Returns false
  /// after an error.
  bool Issue(Warp& warp, const WarpgroupProduct& product, std::span<const int32_t> sums,
             std::span<const int32_t> left);
  /// wgmma.fence: later products see what the warp wrote to registers.
  void Fence(const Warp& warp);
  void Commit(const Warp& warp) { ++warps_[warp.index].committed; }
  /// True if all warps of the warpgroup (that have not exited) have issued the products of all but
  /// the warp's last `pending` groups.
  bool CanWait(const Warp& warp, uint32_t pending) const;
  /// Removes and returns the products of all but the last `pending` groups.
  std::vector<WarpgroupProduct> Wait(const Warp& warp, uint32_t pending);
  /// The same product of other warps of the warpgroup, which have not waited for it yet.
  std::vector<WarpgroupProduct*> OthersOf(const WarpgroupProduct& product);
  /// The warp uses register `reg`; `from` is the source of a copy. Returns false after an error.
  bool Use(Warp& warp, const Op* op, RegisterTouch touch, int32_t reg, int32_t from);
  /// True if the warp has products in progress.
  bool AreInProgress(const Warp& warp) const { return !warps_[warp.index].products.empty(); }
  /// All threads of the warp have exited. Returns false if the warps of its group do not agree.
  bool Exit(Warp& warp);

 private:
  struct Owner {
    uint64_t product = 0;  // serial number of the product that owns the register; 0: none
    bool only_reads = false;
    bool is_dirty = false;  // computed since the last wgmma.fence
  };
  struct Progress {
    std::deque<WarpgroupProduct> products;
    std::vector<Owner> owners;  // by register
    uint64_t issued = 0;        // serial number of the last product
    uint64_t completed = 0;     // all products up to this number are complete
    uint32_t committed = 0;
    bool has_fenced = false;  // some wgmma.fence was executed
  };
  /// What the warps of a warpgroup have issued and not all of them yet.
  struct Group {
    std::deque<WarpgroupProduct> issued;
    uint64_t first = 1;  // serial number of issued[0]
  };

  std::span<const Progress> GroupOf(const Warp& warp) const;
  Owner& OwnerOf(Progress& progress, int32_t reg);
  bool Agree(Warp& warp, const WarpgroupProduct& product);

  std::vector<Progress> warps_;
  std::vector<Group> groups_;
};

}  // namespace cupel::emu
