// Tested by nodes_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/nodes/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "emu/nodes/convert.h"

namespace cupel::emu {
namespace {

using records::Finding;
using records::Severity;
using Wide = __int128;

constexpr uint64_t kBytesPerTask = 1 << 20;

Finding MakeFinding(std::string code, std::string message, std::string where = {}) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = Severity::kError;
  finding.message = std::move(message);
  finding.where = std::move(where);
  return finding;
}

// The lowest and highest element offsets of a view, relative to its first element.
struct Reach {
  Wide low = 0, high = 0;
  bool empty = false;
};

Reach ReachOf(const plan::View& view) {
  Reach extent;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] <= 0) extent.empty = true;
    const Wide reach = Wide{view.shape[i] - 1} * view.strides[i];
    (reach < 0 ? extent.low : extent.high) += reach;
  }
  return extent;
}

uint64_t SaturatedCount(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) {
      return std::numeric_limits<uint64_t>::max();
    }
  }
  return count;
}

}  // namespace

NodeOutcome NodeFailure(std::string code, std::string message) {
  NodeOutcome outcome;
  outcome.finding = MakeFinding(std::move(code), std::move(message));
  return outcome;
}

uint64_t DeviceAddress(std::span<const BoundBuffer> buffers, const plan::Address& address) {
  const auto offset = static_cast<uint64_t>(address.offset);
  if (address.buffer < 0 || static_cast<size_t>(address.buffer) >= buffers.size()) return offset;
  return buffers[static_cast<size_t>(address.buffer)].address + offset;
}

bool Relocate(std::span<const plan::Relocation> relocations,
              std::span<const plan::PlacedTensorMap> tensor_maps,
              std::span<const BoundBuffer> buffers, std::span<std::byte> bytes) {
  for (const plan::Relocation& relocation : relocations) {
    const uint64_t value = DeviceAddress(buffers, relocation.target);
    if (bytes.size() < sizeof value || relocation.at > bytes.size() - sizeof value) return false;
    std::memcpy(bytes.data() + relocation.at, &value, sizeof value);
  }
  for (const plan::PlacedTensorMap& placed : tensor_maps) {
    const auto map = plan::EncodeTensorMap(placed.map, DeviceAddress(buffers, placed.address));
    if (bytes.size() < map.size() || placed.at > bytes.size() - map.size()) return false;
    std::memcpy(bytes.data() + placed.at, map.data(), map.size());
  }
  return true;
}

std::byte* NodeRunner::Access(const plan::Address& address, uint64_t bytes, const char* who,
                              const char* verb, NodeOutcome* outcome) const {
  const uint64_t device = DeviceAddress(buffers_, address);
  if (address.buffer >= 0 && static_cast<size_t>(address.buffer) < buffers_.size() &&
      address.offset >= 0) {
    const uint64_t size = buffers_[static_cast<size_t>(address.buffer)].bytes;
    const auto offset = static_cast<uint64_t>(address.offset);
    if (offset <= size && bytes <= size - offset) {
      if (std::string_view(verb) == "writes") memory_.MarkWritten(device, bytes);
      return memory_.Host(device);
    }
  }
  outcome->finding =
      MakeFinding("out_of_bounds",
                  fmt::format("{} {} {} bytes at {}, which are not inside one buffer", who, verb,
                              bytes, memory_.Describe(device)),
                  memory_.Describe(device));
  return nullptr;
}

std::byte* NodeRunner::AccessView(const plan::View& view, const char* who, const char* verb,
                                  NodeOutcome* outcome) const {
  const Reach extent = ReachOf(view);
  const int64_t size = SizeOf(view.dtype);
  const Wide first = Wide{view.address.offset} + extent.low * size;
  const Wide bytes = (extent.high - extent.low + 1) * size;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  if (first < -kMost || first > kMost || bytes > kMost) {
    outcome->finding = MakeFinding("out_of_bounds", fmt::format("{} {} a view whose strides lead "
                                                                "outside every buffer",
                                                                who, verb));
    return nullptr;
  }
  std::byte* lowest = Access({view.address.buffer, static_cast<int64_t>(first)},
                             static_cast<uint64_t>(bytes), who, verb, outcome);
  if (lowest == nullptr) return nullptr;
  return lowest - static_cast<int64_t>(extent.low) * size;
}

NodeOutcome NodeRunner::Run(const plan::Copy& copy) const {
  NodeOutcome outcome;
  if (copy.bytes == 0) return outcome;
  std::byte* from = Access(copy.from, copy.bytes, "a device-to-device copy", "reads", &outcome);
  if (from == nullptr) return outcome;
  std::byte* to = Access(copy.to, copy.bytes, "a device-to-device copy", "writes", &outcome);
  if (to == nullptr) return outcome;
  const bool overlap = to < from + copy.bytes && from < to + copy.bytes;
  if (overlap) {
    std::memmove(to, from, copy.bytes);
    return outcome;
  }
  pool_.ParallelFor(copy.bytes, kBytesPerTask, [&](uint64_t begin, uint64_t end) {
    std::memcpy(to + begin, from + begin, end - begin);
  });
  return outcome;
}

NodeOutcome NodeRunner::Run(const plan::Upload& upload) const {
  NodeOutcome outcome;
  if (upload.bytes.empty()) return outcome;
  std::byte* to =
      Access(upload.to, upload.bytes.size(), "a copy from the host", "writes", &outcome);
  if (to == nullptr) return outcome;
  std::memcpy(to, upload.bytes.data(), upload.bytes.size());
  if (!Relocate(upload.relocations, upload.tensor_maps, buffers_, {to, upload.bytes.size()})) {
    return NodeFailure("out_of_bounds",
                       "a pointer in bytes copied from the host extends past their end");
  }
  return outcome;
}

NodeOutcome NodeRunner::Run(const plan::Fill& fill) const {
  NodeOutcome outcome;
  const uint64_t width = fill.pattern.size();
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(width, fill.count, &bytes))
    bytes = std::numeric_limits<uint64_t>::max();
  if (bytes == 0) return outcome;
  std::byte* to = Access(fill.to, bytes, "a fill", "writes", &outcome);
  if (to == nullptr) return outcome;
  pool_.ParallelFor(fill.count, kBytesPerTask / width, [&](uint64_t begin, uint64_t end) {
    std::byte* at = to + begin * width;
    const uint64_t total = (end - begin) * width;
    std::memcpy(at, fill.pattern.data(), width);
    for (uint64_t done = width; done < total;) {
      const uint64_t step = std::min(done, total - done);
      std::memcpy(at + done, at, step);
      done += step;
    }
  });
  return outcome;
}

NodeOutcome NodeRunner::Run(const plan::CopyView& copy) const {
  NodeOutcome outcome;
  if (copy.to.shape != copy.from.shape || copy.to.strides.size() != copy.to.shape.size() ||
      copy.from.strides.size() != copy.from.shape.size()) {
    return NodeFailure("illegal_copy", "a strided copy has views of different shapes");
  }
  if (ReachOf(copy.to).empty) return outcome;
  std::byte* from = AccessView(copy.from, "a strided copy", "reads", &outcome);
  if (from == nullptr) return outcome;
  std::byte* to = AccessView(copy.to, "a strided copy", "writes", &outcome);
  if (to == nullptr) return outcome;
  const uint64_t room = buffers_[static_cast<size_t>(copy.to.address.buffer)].bytes /
                        static_cast<uint64_t>(SizeOf(copy.to.dtype));
  if (SaturatedCount(copy.to.shape) > room) {
    return NodeFailure(
        "illegal_copy",
        "more than one element of the written-to tensor refers to a single memory location");
  }
  CopyStrided(copy.to.shape, {to, copy.to.dtype, copy.to.strides},
              {from, copy.from.dtype, copy.from.strides}, pool_);
  return outcome;
}

Result<NodeOutcome> NodeRunner::Run(const plan::Operator& work,
                                    plan::OperatorRunner& operators) const {
  NodeOutcome outcome;
  plan::ForEachView(work, [&](const plan::View& view, bool is_written) {
    if (!outcome.ok() || ReachOf(view).empty) return;
    AccessView(view, work.name.c_str(), is_written ? "writes" : "reads", &outcome);
  });
  if (!outcome.ok()) return outcome;
  TRY_ASSIGN(const std::string problem, operators.Run(work, {}, [&](int buffer) {
    const BoundBuffer& bound = buffers_[static_cast<size_t>(buffer)];
    return std::span(memory_.Host(bound.address), bound.bytes);
  }));
  if (!problem.empty()) {
    return NodeFailure("operator_failed", fmt::format("PyTorch's {}: {}", work.name, problem));
  }
  return outcome;
}

NodeOutcome NodeRunner::Extract(const plan::View& view, const std::string& what,
                                std::vector<std::byte>* bytes) const {
  NodeOutcome outcome;
  if (view.shape.size() != view.strides.size()) {
    return NodeFailure("illegal_output", what + " does not have one stride for each dimension");
  }
  bytes->clear();
  if (ReachOf(view).empty) return outcome;
  const std::byte* from = AccessView(view, what.c_str(), "reads", &outcome);
  if (from == nullptr) return outcome;
  // An expanded view may be larger than its storage. No valid view needs more than device memory.
  constexpr uint64_t kMostElements = uint64_t{1} << 34;
  const uint64_t count = SaturatedCount(view.shape);
  if (count > kMostElements) {
    return NodeFailure("illegal_output",
                       fmt::format("{} has more than {} elements", what, kMostElements));
  }
  bytes->resize(count * static_cast<uint64_t>(SizeOf(view.dtype)));
  const std::vector<int64_t> strides = task::ContiguousStrides(view.shape);
  CopyStrided(view.shape, {bytes->data(), view.dtype, strides}, {from, view.dtype, view.strides},
              pool_);
  return outcome;
}

NodeOutcome NodeRunner::ExtractRanges(const plan::View& view, const std::string& what,
                                      std::span<const engine::ElementRange> ranges,
                                      std::vector<std::byte>* bytes) const {
  NodeOutcome outcome;
  bytes->clear();
  if (ReachOf(view).empty) return outcome;
  const std::byte* from = AccessView(view, what.c_str(), "reads", &outcome);
  if (from == nullptr) return outcome;
  const auto size = static_cast<int64_t>(SizeOf(view.dtype));
  for (const engine::ElementRange& range : ranges) {
    bytes->insert(bytes->end(), from + range.begin * size, from + range.end * size);
  }
  return outcome;
}

}  // namespace cupel::emu
