// Tested by exec/hopper_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/sync/warpgroups.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/check/race_report.h"
#include "emu/check/report.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/launch_state.h"
#include "emu/core/op_flags.h"
#include "emu/core/worker.h"

namespace cupel::emu {
namespace {

/// Other warps of the warpgroup that wait for products of this one run their wait again.
void Wake(const Warp& warp) {
  BlockState& block = *warp.block;
  const size_t first = warp.index / 4 * 4;
  for (size_t w = first; w < std::min(first + 4, block.warps.size()); ++w) {
    Warp& other = block.warps[w];
    for (int i = 0; i < other.others; ++i) {
      Group& group = other.other[static_cast<size_t>(i)];
      if (group.state != GroupState::kBarrier || group.barrier != kWarpgroupBarrier) continue;
      group.state = GroupState::kRunnable;
      --group.pc;
      block.ready[w] = true;
    }
  }
}

}  // namespace

Warpgroups::Owner& Warpgroups::OwnerOf(Progress& progress, int32_t reg) {
  const auto index = static_cast<size_t>(reg);
  if (index >= progress.owners.size()) progress.owners.resize(index + 1);
  return progress.owners[index];
}

/// All four warps of a warpgroup must execute the same products with the same descriptors.
bool Warpgroups::Agree(Warp& warp, const WarpgroupProduct& product) {
  Group& group = groups_[warp.index / 4];
  const uint64_t serial = warps_[warp.index].issued;
  const auto at = static_cast<size_t>(serial - group.first);
  if (at == group.issued.size()) {
    group.issued.push_back(product);
  } else {
    const WarpgroupProduct& other = group.issued[at];
    const char* what = other.op != product.op ? "execute different wgmma instructions"
                       : other.b != product.b || other.a != product.a
                           ? "pass different matrix descriptors to one wgmma instruction"
                       : other.scale != product.scale
                           ? "pass different values of scale-d to one wgmma instruction"
                           : nullptr;
    if (what != nullptr) {
      Fault(warp, product.op, "warpgroup_divergence",
            fmt::format("The warps of a warpgroup {} (another warp: that{}). All four warps must "
                        "execute each wgmma instruction together.",
                        what, OfLine(warp, other.op)));
      return false;
    }
  }
  uint64_t least = serial;
  const size_t first = warp.index / 4 * 4;
  for (size_t w = first; w < std::min(first + 4, warps_.size()); ++w) {
    least = std::min(least, warps_[w].issued);
  }
  while (group.first <= least && !group.issued.empty()) {
    group.issued.pop_front();
    ++group.first;
  }
  return true;
}

bool Warpgroups::Issue(Warp& warp, const WarpgroupProduct& product, std::span<const int32_t> sums,
                       std::span<const int32_t> left) {
  Progress& progress = warps_[warp.index];
  ++progress.issued;
  progress.products.push_back(product);
  progress.products.back().number = progress.issued;
  progress.products.back().group = progress.committed;
  Wake(warp);
  if (!warp.checking) return true;
  if (warps_.size() < warp.index / 4 * 4 + 4) {
    Fault(warp, product.op, "warpgroup_divergence",
          "A wgmma instruction needs the four warps of a warpgroup; the block's last warpgroup is "
          "not complete.");
    return false;
  }
  if (!Agree(warp, product)) return false;
  if (!progress.has_fenced) {
    Fault(warp, product.op, "missing_wgmma_fence",
          "No wgmma.fence comes before the warp's first wgmma instruction, which may therefore not "
          "see the values of its registers.");
    return false;
  }
  bool is_dirty = false;
  for (const auto& registers : {sums, left}) {
    for (const int32_t reg : registers) is_dirty |= OwnerOf(progress, reg).is_dirty;
  }
  if (is_dirty) {
    Warn(warp, product.op, "missing_wgmma_fence",
         "A register of this wgmma instruction was computed after the last wgmma.fence, so the "
         "instruction may see the old value.");
  }
  for (const int32_t reg : left) {
    const Owner owner = OwnerOf(progress, reg);
    if (owner.product > progress.completed && !owner.only_reads) {
      Use(warp, product.op, RegisterTouch::kRead, reg, -1);
      return false;
    }
    if (owner.product <= progress.completed) {
      OwnerOf(progress, reg) = {progress.issued, true, false};
    }
  }
  for (const int32_t reg : sums) OwnerOf(progress, reg) = {progress.issued, false, false};
  return true;
}

void Warpgroups::Fence(const Warp& warp) {
  Progress& progress = warps_[warp.index];
  progress.has_fenced = true;
  for (Owner& owner : progress.owners) owner.is_dirty = false;
}

std::span<const Warpgroups::Progress> Warpgroups::GroupOf(const Warp& warp) const {
  const size_t first = warp.index / 4 * 4;
  return std::span(warps_).subspan(first, std::min<size_t>(4, warps_.size() - first));
}

bool Warpgroups::CanWait(const Warp& warp, uint32_t pending) const {
  const Progress& progress = warps_[warp.index];
  uint64_t last = progress.completed;
  for (const WarpgroupProduct& product : progress.products) {
    if (uint64_t{product.group} + pending < progress.committed) last = product.number;
  }
  size_t w = warp.index / 4 * 4;
  for (const Progress& other : GroupOf(warp)) {
    if (warp.block->warps[w++].live != 0 && other.issued < last) return false;
  }
  return true;
}

std::vector<WarpgroupProduct> Warpgroups::Wait(const Warp& warp, uint32_t pending) {
  Progress& progress = warps_[warp.index];
  std::vector<WarpgroupProduct> done;
  while (!progress.products.empty() &&
         uint64_t{progress.products.front().group} + pending < progress.committed) {
    done.push_back(progress.products.front());
    progress.products.pop_front();
  }
  progress.completed = progress.issued - progress.products.size();
  return done;
}

std::vector<WarpgroupProduct*> Warpgroups::OthersOf(const WarpgroupProduct& product) {
  std::vector<WarpgroupProduct*> found;
  const size_t first = product.warp / 4 * 4;
  for (size_t w = first; w < std::min(first + 4, warps_.size()); ++w) {
    Progress& other = warps_[w];
    if (w == product.warp || product.number <= other.completed) continue;
    const uint64_t at = product.number - other.completed - 1;
    if (at < other.products.size()) found.push_back(&other.products[static_cast<size_t>(at)]);
  }
  return found;
}

namespace {

/// Triton adds a product's sums before the wait where tl.dot has max_num_imprecise_acc. PTX leaves
/// that undefined; ptxas injects the wait, and says so (message C7517).
void WarnOfTriton(Warp& warp, const Op* op, const Op* product) {
  Warn(warp, op, "missing_wgmma_wait",
       fmt::format("Triton's compiler reads a register that the wgmma instruction{} still "
                   "computes, without wgmma.wait_group before it. ptxas injects the wait; PTX does "
                   "not promise that it works.",
                   OfLine(warp, product)));
}

}  // namespace

bool Warpgroups::Use(Warp& warp, const Op* op, RegisterTouch touch, int32_t reg, int32_t from) {
  Progress& progress = warps_[warp.index];
  if (touch == RegisterTouch::kCopy) {
    OwnerOf(progress, reg) = Owner(OwnerOf(progress, from));
    return true;
  }
  Owner& owner = OwnerOf(progress, reg);
  const bool in_progress = owner.product > progress.completed;
  const bool writes = touch != RegisterTouch::kRead && touch != RegisterTouch::kSum;
  if (in_progress && (writes || !owner.only_reads)) {
    const size_t at = static_cast<size_t>(owner.product - progress.completed - 1);
    if (touch == RegisterTouch::kSum && warp.worker->launch->code->is_of_triton) {
      WarnOfTriton(warp, op, progress.products[at].op);
      return true;
    }
    Fault(
        warp, op, "missing_wgmma_wait",
        fmt::format("The kernel {} a register that the wgmma instruction{} still {}: wait for its "
                    "group (wgmma.wait_group) first.",
                    writes ? "writes" : "reads", OfLine(warp, progress.products[at].op),
                    owner.only_reads ? "reads" : "computes"));
    return false;
  }
  // A compiler may set a register to a constant after the fence that it comes before in the source.
  if (writes) owner = {0, false, touch == RegisterTouch::kWrite};
  return true;
}

bool Warpgroups::Exit(Warp& warp) {
  Wake(warp);
  Progress& progress = warps_[warp.index];
  if (!warp.checking) return true;
  const size_t first = warp.index / 4 * 4;
  for (size_t w = first; w < std::min(first + 4, warps_.size()); ++w) {
    if (warp.block->warps[w].live != 0 || warps_[w].issued == progress.issued) continue;
    const Group& group = groups_[warp.index / 4];
    const Op* op = group.issued.empty() ? warp.code : group.issued.back().op;
    Fault(warp, op, "warpgroup_divergence",
          fmt::format("Warp {} of the block has executed {} wgmma instructions and warp {} of the "
                      "same warpgroup {}. All four warps must execute each of them together.",
                      warp.index, progress.issued, w, warps_[w].issued));
    return false;
  }
  return true;
}

}  // namespace cupel::emu
