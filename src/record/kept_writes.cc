// Lazy set-up of memory that lives across calls: a candidate may copy a table to a __constant__
// variable, or clear a counter that it allocates, in its first call only. Each later plan that uses
// the memory begins with these copies and fills (Plan::prepared), so it is complete by itself.
// Kernels may change memory that is not constant. What runs the plan checks that they leave it as
// it was (assay/kept_memory.h). SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "record/session.h"

namespace cupel::record {
namespace {

constexpr size_t kMostWrites = 1024;
constexpr uint64_t kMostBytes = 32u << 20;  // of all copies

struct Write {
  plan::Address to;
  uint64_t bytes = 0;
  bool operator==(const Write&) const = default;
};

/// The destination of an upload or a fill; `bytes` is 0 for other work.
Write HostWriteOf(const plan::Node& node) {
  if (const auto* upload = std::get_if<plan::Upload>(&node.work)) {
    return {upload->to, upload->bytes.size()};
  }
  if (const auto* fill = std::get_if<plan::Fill>(&node.work)) {
    return {fill->to, fill->count * fill->pattern.size()};
  }
  return {};
}

uint64_t UploadedBytes(const plan::Node& node) {
  const auto* upload = std::get_if<plan::Upload>(&node.work);
  return upload == nullptr ? 0 : upload->bytes.size();
}

/// The buffers that work other than kernels and copies from the host writes.
std::set<int> DeviceWritesOf(const plan::Node& node) {
  if (const auto* copy = std::get_if<plan::Copy>(&node.work)) return {copy->to.buffer};
  if (const auto* copy = std::get_if<plan::CopyView>(&node.work)) return {copy->to.address.buffer};
  std::set<int> written;
  if (const auto* gemm = std::get_if<plan::Gemm>(&node.work)) {
    written.insert(gemm->c.buffer);
    for (const auto& product : gemm->pointers) written.insert(product[2].buffer);
  }
  if (const auto* work = std::get_if<plan::Operator>(&node.work)) {
    plan::ForEachView(*work, [&](const plan::View& view, bool is_written) {
      if (is_written) written.insert(view.address.buffer);
    });
  }
  return written;
}

}  // namespace

void Session::PrependKeptWrites(const std::vector<plan::View>& outputs) {
  const auto rewritten = [&](const Write& write) {
    for (const plan::Node& node : nodes_) {
      if (std::holds_alternative<plan::Launch>(node.work)) return false;
      if (HostWriteOf(node) == write) return true;
    }
    return true;  // no kernel is launched, so none reads the memory
  };
  const auto is_live = [&](int allocation) {
    const Allocation* target = memory.ById(allocation);
    return target != nullptr && target->live;
  };
  std::set<int> used;
  const auto note = [&](const plan::Address& address) { used.insert(address.buffer); };
  for (const plan::Node& node : nodes_) {
    std::visit([&](const auto& work) { plan::ForEachAddress(work, note); }, node.work);
  }
  for (const plan::View& view : outputs) note(view.address);
  // A kernel gets the address of a variable from its module, and others from tables.
  for (const plan::Node& node : kept_writes_) {
    const Allocation* target = memory.ById(HostWriteOf(node).to.buffer);
    if (target != nullptr && target->origin == Origin::kSymbol) used.insert(target->id);
  }
  for (size_t before = 0; before != used.size();) {
    before = used.size();
    for (const plan::Node& node : kept_writes_) {
      if (!used.contains(HostWriteOf(node).to.buffer)) continue;
      std::visit([&](const auto& work) { plan::ForEachAddress(work, note); }, node.work);
    }
  }
  std::vector<plan::Node> all;
  for (const plan::Node& node : kept_writes_) {
    const Write write = HostWriteOf(node);
    bool valid = used.contains(write.to.buffer) && !rewritten(write);
    const auto check = [&](const plan::Address& address) {
      valid = valid && is_live(address.buffer);
    };
    std::visit([&](const auto& work) { plan::ForEachAddress(work, check); }, node.work);
    if (!valid) continue;
    plan::Node copy = node;
    if (!all.empty()) copy.after = {static_cast<int>(all.size()) - 1};
    all.push_back(std::move(copy));
  }
  prepared_ = static_cast<int>(all.size());
  if (prepared_ == 0) return;
  for (plan::Node& node : nodes_) {
    for (int& before : node.after) before += prepared_;
    if (node.after.empty()) node.after = {prepared_ - 1};
    all.push_back(std::move(node));
  }
  nodes_ = std::move(all);
}

void Session::RememberKeptWrites() {
  const auto forget = [&](int allocation) {
    std::erase_if(kept_writes_,
                  [&](const plan::Node& old) { return HostWriteOf(old).to.buffer == allocation; });
  };
  for (size_t i = static_cast<size_t>(prepared_); i < nodes_.size(); ++i) {
    const plan::Node& node = nodes_[i];
    for (const int written : DeviceWritesOf(node)) forget(written);
    const Write write = HostWriteOf(node);
    const Allocation* target = write.bytes > 0 ? memory.ById(write.to.buffer) : nullptr;
    if (target == nullptr || !target->live || target->origin == Origin::kArgument) continue;
    std::erase_if(kept_writes_, [&](const plan::Node& old) { return HostWriteOf(old) == write; });
    uint64_t bytes = UploadedBytes(node);
    for (const plan::Node& old : kept_writes_) bytes += UploadedBytes(old);
    // What depends on values of inputs is no set-up.
    const bool is_setup = target->constant || !read_values;
    if (!is_setup || bytes > kMostBytes || kept_writes_.size() >= kMostWrites) {
      forget(target->id);
      continue;
    }
    kept_writes_.push_back({node.work, {}});
  }
  std::erase_if(kept_writes_, [&](const plan::Node& node) {
    return memory.ById(HostWriteOf(node).to.buffer) == nullptr;
  });
}

}  // namespace cupel::record
