// Tested by sampling_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/exec/sampling.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/random.h"
#include "emu/core/code.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/decode/kernel_module.h"
#include "task/tensor.h"

namespace cupel::emu {
namespace {

using plan::Plan;

using Buffers = std::set<int>;

struct NoteUses {
  Buffers& buffers;
  void Add(const plan::Address& address) const { buffers.insert(address.buffer); }
  void operator()(const plan::Launch& launch) const {
    plan::ForEachPointer(launch, [&](const plan::Address& address) { Add(address); });
  }
  void operator()(const plan::Copy& copy) const {
    Add(copy.to);
    Add(copy.from);
  }
  void operator()(const plan::Upload& upload) const { Add(upload.to); }
  void operator()(const plan::Fill& fill) const { Add(fill.to); }
  void operator()(const plan::CopyView& copy) const {
    Add(copy.to.address);
    Add(copy.from.address);
  }
  void operator()(const plan::Gemm& gemm) const {
    for (const plan::Address& address : {gemm.a, gemm.b, gemm.c}) Add(address);
    for (const auto& product : gemm.pointers) {
      for (const plan::Address& address : product) Add(address);
    }
  }
  void operator()(const plan::Operator& work) const {
    plan::ForEachView(work, [&](const plan::View& view, bool) { Add(view.address); });
  }
};

/// Buffers that a launch may write: those it has a pointer to, except inputs.
Buffers MayWrite(const Plan& plan, const plan::Launch& launch) {
  Buffers buffers = BuffersOf(launch);
  std::erase_if(buffers, [&](int i) {
    return i < 0 || static_cast<size_t>(i) >= plan.buffers.size() ||
           plan::IsReadOnly(plan.buffers[static_cast<size_t>(i)]);
  });
  return buffers;
}

bool Overlap(const Buffers& a, const Buffers& b) {
  return std::any_of(a.begin(), a.end(), [&](int i) { return b.contains(i); });
}

/// Module variables outlive the call, and kernels access them without a parameter.
bool UsesVariables(const Kernel& kernel, const ptx::Module& module) {
  const std::vector<ConstantSlot>& slots = kernel.code->constants;
  return std::any_of(slots.begin(), slots.end(), [&](const ConstantSlot& slot) {
    if (slot.symbol.empty()) return false;
    return std::none_of(module.variables.begin(), module.variables.end(), [&](const auto& v) {
      return v.name == slot.symbol && v.space == ptx::Space::kConst;
    });
  });
}

bool IsIndependent(const plan::Launch& launch, const KernelModules& modules, uint64_t max_blocks) {
  if (launch.cooperative) return false;
  if (launch.grid.Count() < 2 * max_blocks) return false;
  const Kernel* kernel = FindKernel(modules, launch);
  return kernel != nullptr && kernel->code != nullptr && kernel->has_plain_stores &&
         !kernel->has_global_atomics && !kernel->may_spin &&
         !UsesVariables(*kernel, modules[static_cast<size_t>(launch.image)]->module());
}

bool IsContiguous(const plan::View& view) {
  return view.strides == task::ContiguousStrides(view.shape);
}

/// True if only contiguous outputs read what the launch writes.
bool IsLast(const Plan& plan, size_t node, const Buffers& written) {
  for (size_t later = node + 1; later < plan.nodes.size(); ++later) {
    if (Overlap(written, BuffersOf(plan.nodes[later]))) return false;
  }
  return std::all_of(plan.outputs.begin(), plan.outputs.end(), [&](const plan::View& view) {
    return !written.contains(view.address.buffer) || IsContiguous(view);
  });
}

}  // namespace

std::set<int> BuffersOf(const plan::Launch& launch) {
  Buffers touched;
  NoteUses{touched}(launch);
  return touched;
}

std::set<int> BuffersOf(const plan::Node& node) {
  Buffers touched;
  std::visit(NoteUses{touched}, node.work);
  return touched;
}

std::vector<bool> SampledNodes(const Plan& plan, const KernelModules& modules,
                               uint64_t max_blocks) {
  std::vector<bool> sampled(plan.nodes.size(), false);
  if (max_blocks == 0) return sampled;
  // Pointers in uploaded tables and in workspaces may point to any buffer.
  const bool hidden_pointers =
      std::any_of(plan.nodes.begin(), plan.nodes.end(), [](const plan::Node& node) {
        const auto* upload = std::get_if<plan::Upload>(&node.work);
        return upload != nullptr && (!upload->relocations.empty() || !upload->tensor_maps.empty());
      });
  if (hidden_pointers) return sampled;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto* launch = std::get_if<plan::Launch>(&plan.nodes[i].work);
    if (launch == nullptr || !IsIndependent(*launch, modules, max_blocks)) continue;
    sampled[i] = IsLast(plan, i, MayWrite(plan, *launch));
  }
  return sampled;
}

std::vector<uint64_t> SampleBlocks(const plan::Dim3& grid, const plan::Dim3& cluster,
                                   uint64_t count, uint64_t seed) {
  const plan::Dim3 clusters{grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
  const uint64_t all = clusters.Count(), size = cluster.Count();
  std::set<uint64_t> chosen;
  for (uint64_t corner = 0; corner < 8; ++corner) {
    const uint64_t x = (corner & 1) != 0 ? clusters.x - 1 : 0;
    const uint64_t y = (corner & 2) != 0 ? clusters.y - 1 : 0;
    const uint64_t z = (corner & 4) != 0 ? clusters.z - 1 : 0;
    chosen.insert((z * clusters.y + y) * clusters.x + x);
  }
  count = std::min((std::max<uint64_t>(count, 16) + size - 1) / size, all);
  if (count == all) {
    for (uint64_t i = 0; i < all; ++i) chosen.insert(i);
  }
  Random random(seed ^ 0x5a3c1e0f7b9d2468u);
  // One in four is chosen with its neighbour: blocks often share a row, a tile or a cache line.
  while (chosen.size() < count) {
    const uint64_t one = random.Below(all);
    chosen.insert(one);
    if (random.Below(4) == 0 && one + 1 < all) chosen.insert(one + 1);
  }
  std::vector<uint64_t> blocks;
  blocks.reserve(chosen.size() * size);
  for (const uint64_t one : chosen) {
    for (uint64_t rank = 0; rank < size; ++rank) blocks.push_back(one * size + rank);
  }
  return blocks;
}

std::vector<engine::ElementRange> WrittenElements(const plan::View& view,
                                                  std::span<const BoundBuffer> buffers,
                                                  std::span<const WrittenRange> written) {
  const uint64_t begin = DeviceAddress(buffers, view.address);
  const auto size = static_cast<uint64_t>(SizeOf(view.dtype));
  uint64_t count = 1;
  for (int64_t extent : view.shape) count *= static_cast<uint64_t>(extent);
  const uint64_t end = begin + count * size;
  std::vector<engine::ElementRange> ranges;
  for (const WrittenRange& range : written) {
    const uint64_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from >= to) continue;
    const uint64_t first = (from - begin + size - 1) / size, last = (to - begin) / size;
    if (first < last) ranges.push_back({static_cast<int64_t>(first), static_cast<int64_t>(last)});
  }
  return ranges;
}

}  // namespace cupel::emu
