// Tested by kept_memory_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "assay/kept_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cupel::assay {
namespace {

constexpr uint64_t kMostWatchedBytes = 64u << 20;  // of all buffers that are set up

constexpr size_t kAddressBytes = 8, kTensorMapBytes = 128;

}  // namespace

KeptMemory::KeptMemory(const plan::Plan& plan) {
  const auto is_host_work = [](const plan::Node& node) {
    return std::holds_alternative<plan::Upload>(node.work) ||
           std::holds_alternative<plan::Fill>(node.work);
  };
  // A program's construction also has other work; TwiceCalled checks it.
  if (!std::all_of(plan.nodes.begin(), plan.nodes.begin() + plan.prepared, is_host_work)) return;
  is_unwatchable_ = plan.prepared > 0;  // until all is known
  std::map<int, Content> contents;
  uint64_t all = 0;
  const auto room = [&](const plan::Address& to, size_t bytes) -> Content* {
    if (to.buffer < 0 || to.offset < 0) return nullptr;
    const plan::Buffer& buffer = plan.buffers.at(static_cast<size_t>(to.buffer));
    if (static_cast<uint64_t>(to.offset) + bytes > buffer.bytes) return nullptr;
    const auto [found, is_new] = contents.try_emplace(to.buffer);
    if (is_new) all += buffer.bytes;
    if (all > kMostWatchedBytes) return nullptr;
    found->second.bytes.resize(buffer.bytes);
    found->second.is_set.resize(buffer.bytes);
    return &found->second;
  };
  for (size_t i = 0; i < static_cast<size_t>(plan.prepared); ++i) {
    const auto& work = plan.nodes[i].work;
    if (const auto* upload = std::get_if<plan::Upload>(&work)) {
      Content* content = room(upload->to, upload->bytes.size());
      if (content == nullptr) return;
      const auto to = static_cast<ptrdiff_t>(upload->to.offset);
      std::memcpy(content->bytes.data() + to, upload->bytes.data(), upload->bytes.size());
      const auto mark = [&](size_t at, size_t bytes, bool is_set) {
        std::fill_n(content->is_set.begin() + to + static_cast<ptrdiff_t>(at), bytes, is_set);
      };
      mark(0, upload->bytes.size(), true);
      for (const auto& relocation : upload->relocations) mark(relocation.at, kAddressBytes, false);
      for (const auto& placed : upload->tensor_maps) mark(placed.at, kTensorMapBytes, false);
    } else if (const auto* fill = std::get_if<plan::Fill>(&work)) {
      const size_t size = fill->pattern.size();
      Content* content = room(fill->to, fill->count * size);
      if (content == nullptr) return;
      const auto to = static_cast<size_t>(fill->to.offset);
      for (size_t j = 0; j < fill->count * size; ++j) {
        content->bytes[to + j] = static_cast<std::byte>(fill->pattern[j % size]);
        content->is_set[to + j] = true;
      }
    }
  }
  is_unwatchable_ = false;
  contents_ = std::move(contents);
}

plan::Plan KeptMemory::Watching(const plan::Plan& plan) const {
  plan::Plan watching = plan;
  for (const auto& [buffer, content] : contents_) {
    watching.outputs.push_back(
        {{buffer, 0}, DType::kU8, {static_cast<int64_t>(content.bytes.size())}, {1}});
  }
  return watching;
}

bool KeptMemory::Check(engine::Run& run) const {
  if (run.outputs.size() < contents_.size()) return true;  // the run has stopped early
  const size_t first = run.outputs.size() - contents_.size();
  bool same = true;
  size_t output = first;
  for (const auto& [buffer, content] : contents_) {
    const engine::OutputTensor& found = run.outputs[output++];
    const auto all = static_cast<int64_t>(content.bytes.size());
    const std::byte* at = found.bytes.data();
    // Of a sampled launch: what its blocks wrote.
    for (const auto& [begin, end] :
         found.is_sampled ? found.written : std::vector<engine::ElementRange>{{0, all}}) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i, ++at) {
        same = same && (!content.is_set[i] || *at == content.bytes[i]);
      }
    }
  }
  run.outputs.resize(first);
  return same;
}

plan::Plan WithoutPrepared(plan::Plan plan) {
  const int removed = std::exchange(plan.prepared, 0);
  plan.nodes.erase(plan.nodes.begin(), plan.nodes.begin() + removed);
  for (plan::Node& node : plan.nodes) {
    std::erase_if(node.after, [&](int before) { return before < removed; });
    for (int& before : node.after) before -= removed;
  }
  return plan;
}

}  // namespace cupel::assay
