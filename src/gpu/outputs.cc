// SPDX-License-Identifier: Apache-2.0
#include "gpu/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace cupel::gpu {
namespace {

using records::Finding;

Result<engine::OutputTensor> ReadOutput(const Device& device, const PlanMemory& memory,
                                        const plan::View& view, std::vector<Finding>* findings) {
  engine::OutputTensor output;
  output.is_none = view.address.buffer == plan::kNoneOutput;
  if (output.is_none) return output;
  output.dtype = view.dtype;
  output.shape = view.shape;
  const auto size = static_cast<size_t>(SizeOf(view.dtype));
  size_t elements = 1, last = 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    elements *= static_cast<size_t>(view.shape[d]);
    last += static_cast<size_t>(std::max<int64_t>(view.shape[d], 1) - 1) *
            static_cast<size_t>(view.strides[d]);
  }
  output.bytes.resize(elements * size);
  if (elements == 0) return output;
  if (!memory.Contains(view.address, (last + 1) * size)) {
    Finding finding;
    finding.code = "out_of_bounds";
    finding.message = "A returned output extends outside its buffer.";
    findings->push_back(std::move(finding));
    return output;
  }
  const CuPointer from = *memory.AddressOf(view.address);
  if (last + 1 == elements && task::ContiguousStrides(view.shape) == view.strides) {
    TRY(ReadBack(device, from, output.bytes));
    return output;
  }
  std::vector<std::byte> bytes((last + 1) * size);
  TRY(ReadBack(device, from, bytes));
  std::vector<int64_t> at(view.shape.size(), 0);
  for (size_t i = 0; i < elements; ++i) {
    size_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      offset += static_cast<size_t>(at[d]) * static_cast<size_t>(view.strides[d]);
    }
    std::memcpy(output.bytes.data() + i * size, bytes.data() + offset * size, size);
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < view.shape[d]) break;
      at[d] = 0;
    }
  }
  return output;
}

/// Reads device memory piece by piece through page-locked memory, and calls `take` with each piece.
/// Stops at the end or when `take` returns false.
Status ReadPieces(const Device& device, CuPointer from, uint64_t bytes,
                  const std::function<bool(uint64_t at, std::span<const std::byte> piece)>& take) {
  const Driver& driver = device.driver();
  TRY_ASSIGN(const std::span<std::byte> staging, device.Staging());
  for (uint64_t at = 0; at < bytes; at += staging.size()) {
    const auto piece = staging.first(std::min<uint64_t>(staging.size(), bytes - at));
    TRY(driver.Check(driver.copy_out(piece.data(), from + at, piece.size(), device.stream()),
                     "copying from the GPU"));
    TRY(driver.Check(driver.stream_synchronize(device.stream()), "copying from the GPU"));
    if (!take(at, piece)) return {};
  }
  return {};
}

}  // namespace

Status ReadBack(const Device& device, CuPointer from, std::span<std::byte> to) {
  return ReadPieces(device, from, to.size(), [&](uint64_t at, std::span<const std::byte> piece) {
    std::memcpy(to.data() + at, piece.data(), piece.size());
    return true;
  });
}

Result<std::optional<uint64_t>> FirstDifference(const Device& device, CuPointer from,
                                                std::span<const std::byte> wanted) {
  std::optional<uint64_t> found;
  TRY(ReadPieces(device, from, wanted.size(), [&](uint64_t at, std::span<const std::byte> piece) {
    const std::byte* want = wanted.data() + at;
    if (std::memcmp(want, piece.data(), piece.size()) == 0) return true;
    const auto* differs = std::mismatch(piece.data(), piece.data() + piece.size(), want).first;
    found = at + static_cast<uint64_t>(differs - piece.data());
    return false;
  }));
  return found;
}

Result<std::vector<engine::OutputTensor>> ReadOutputs(const Device& device,
                                                      const PlanMemory& memory,
                                                      const plan::Plan& plan,
                                                      std::vector<Finding>* findings) {
  std::vector<engine::OutputTensor> outputs;
  for (const plan::View& view : plan.outputs) {
    TRY_ASSIGN(engine::OutputTensor output, ReadOutput(device, memory, view, findings));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

Status FindChangedArguments(const Device& device, const PlanMemory& memory, const plan::Plan& plan,
                            std::span<const std::span<const std::byte>> arguments,
                            std::vector<Finding>* findings) {
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (!plan::IsReadOnly(buffer) || buffer.bytes == 0) continue;
    const std::span<const std::byte> before = arguments[static_cast<size_t>(buffer.argument)];
    TRY_ASSIGN(const auto at, FirstDifference(device, memory.places()[i].address, before));
    if (!at) continue;
    Finding finding;
    finding.code = "writes_input";
    finding.where = fmt::format("{} + {} bytes", memory.places()[i].name, *at);
    finding.message = fmt::format("{} is an input, but its bytes changed, first at byte {}",
                                  memory.places()[i].name, *at);
    findings->push_back(std::move(finding));
  }
  return {};
}

Status FindStrayWrites(const PlanMemory& memory, std::vector<Finding>* findings) {
  TRY_ASSIGN(const std::optional<std::string> stray, memory.FindStrayWrite());
  if (!stray) return {};
  Finding finding;
  finding.code = "out_of_bounds";
  finding.where = *stray;
  finding.message = "The call wrote outside its buffers.";
  findings->push_back(std::move(finding));
  return {};
}

}  // namespace cupel::gpu
