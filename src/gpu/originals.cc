// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/originals.h"

#include <utility>

namespace cupel::gpu {
namespace {

constexpr uint64_t kPartAlignment = 512;

bool Changes(const plan::Buffer& buffer) {
  return buffer.kind == plan::BufferKind::kArgument && buffer.changes && buffer.bytes > 0;
}

}  // namespace

Originals::Originals(const std::vector<const plan::Plan*>& plans) {
  for (const plan::Plan* plan : plans) {
    for (const plan::Buffer& buffer : plan->buffers) {
      if (!Changes(buffer) || parts_.contains(buffer.argument)) continue;
      parts_[buffer.argument] = {bytes_, buffer.bytes};
      bytes_ += (buffer.bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    }
  }
}

Status Originals::Fill(const Device& device,
                       std::span<const std::span<const std::byte>> arguments) {
  if (bytes_ == 0) return {};
  TRY_ASSIGN(Block block, Block::Allocate(device, bytes_));
  TRY(block.Fill(0));
  for (const auto& [argument, part] : parts_) {
    const auto index = static_cast<size_t>(argument);
    if (index >= arguments.size() || arguments[index].size() != part.bytes) {
      return Fail(ErrorCode::kInternal, "a changed argument does not match its plan");
    }
    TRY(device.driver().Check(
        device.driver().copy_in(block.address() + part.offset, arguments[index].data(), part.bytes,
                                device.stream()),
        "copying an argument to the GPU"));
  }
  block_ = std::move(block);
  return {};
}

CuPointer Originals::AddressOf(int argument) const {
  const auto found = parts_.find(argument);
  return block_ && found != parts_.end() ? block_->address() + found->second.offset : 0;
}

Status Originals::Restore(const Device& device, const plan::Plan& plan,
                          const PlanMemory& memory) const {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (!Changes(buffer)) continue;
    TRY(device.driver().Check(
        device.driver().copy_across(memory.places()[i].address, AddressOf(buffer.argument),
                                    buffer.bytes, device.stream()),
        "restoring an argument"));
  }
  return {};
}

}  // namespace cupel::gpu
