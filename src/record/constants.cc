// Lazy set-up of constant memory: a candidate may copy a table to a __constant__ variable in its
// first call only. No kernel can change the table, so each later plan repeats the copy and is
// complete by itself. Variables that kernels can write, and workspaces, are not restored: their
// contents are state.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "record/session.h"

namespace cupel::record {
namespace {

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

/// The buffer that a device-to-device copy writes; -1 for other work.
int DeviceWriteOf(const plan::Node& node) {
  if (const auto* copy = std::get_if<plan::Copy>(&node.work)) return copy->to.buffer;
  if (const auto* copy = std::get_if<plan::CopyView>(&node.work)) return copy->to.address.buffer;
  return -1;
}

}  // namespace

void Session::PrependConstants() {
  const auto rewritten = [&](const Write& write) {
    for (const plan::Node& node : nodes_) {
      if (std::holds_alternative<plan::Launch>(node.work)) return false;
      if (HostWriteOf(node) == write) return true;
    }
    return true;  // no kernel is launched, so none reads the constant
  };
  const auto still_valid = [&](const plan::Node& node) {
    const auto* upload = std::get_if<plan::Upload>(&node.work);
    if (upload == nullptr) return true;
    bool valid = true;
    plan::ForEachPointer(*upload, [&](const plan::Address& address) {
      const Allocation* target = memory.ById(address.buffer);
      valid = valid && target != nullptr && target->live;
    });
    return valid;
  };
  std::vector<plan::Node> all;
  for (const plan::Node& node : constants_) {
    if (rewritten(HostWriteOf(node)) || !still_valid(node)) continue;
    plan::Node copy = node;
    if (!all.empty()) copy.after = {static_cast<int>(all.size()) - 1};
    all.push_back(std::move(copy));
  }
  const int shift = static_cast<int>(all.size());
  if (shift == 0) return;
  for (plan::Node& node : nodes_) {
    for (int& before : node.after) before += shift;
    if (node.after.empty()) node.after = {shift - 1};
    all.push_back(std::move(node));
  }
  nodes_ = std::move(all);
}

void Session::RememberConstants() {
  constexpr size_t kMost = 1024;
  for (const plan::Node& node : nodes_) {
    const int copied = DeviceWriteOf(node);
    if (copied >= 0) {
      std::erase_if(constants_,
                    [&](const plan::Node& old) { return HostWriteOf(old).to.buffer == copied; });
    }
    const Write write = HostWriteOf(node);
    const Allocation* target = write.bytes > 0 ? memory.ById(write.to.buffer) : nullptr;
    if (target == nullptr || !target->constant) continue;
    std::erase_if(constants_, [&](const plan::Node& old) { return HostWriteOf(old) == write; });
    if (constants_.size() >= kMost) constants_.clear();
    constants_.push_back({node.work, {}});
  }
}

}  // namespace cupel::record
