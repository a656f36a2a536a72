// SPDX-License-Identifier: Apache-2.0
#include "gpu/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cupel::gpu {
namespace {

using engine::Finding;

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
    finding.message = "An output that is returned goes outside its buffer.";
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
    for (size_t d = at.size(); d-- > 0 && ++at[d] == view.shape[d];) at[d] = 0;
  }
  return output;
}

}  // namespace

Status ReadBack(const Device& device, CuPointer from, std::span<std::byte> to) {
  if (to.empty()) return {};
  const Driver& driver = device.driver();
  TRY(driver.Check(driver.copy_out(to.data(), from, to.size(), device.stream()),
                   "copying from the GPU"));
  return driver.Check(driver.stream_synchronize(device.stream()), "copying from the GPU");
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
  std::vector<std::byte> now;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (buffer.kind != plan::BufferKind::kArgument || buffer.bytes == 0) continue;
    const std::span<const std::byte> before = arguments[static_cast<size_t>(buffer.argument)];
    now.resize(before.size());
    TRY(ReadBack(device, memory.places()[i].address, now));
    if (std::memcmp(before.data(), now.data(), now.size()) == 0) continue;
    const auto at = std::mismatch(before.begin(), before.end(), now.begin()).first - before.begin();
    Finding finding;
    finding.code = "writes_input";
    finding.where = fmt::format("{} + {} bytes", memory.places()[i].name, at);
    finding.message = fmt::format("{} is an input, but its bytes changed, first at byte {}",
                                  memory.places()[i].name, at);
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
  finding.message = "Something wrote beside a buffer.";
  findings->push_back(std::move(finding));
  return {};
}

}  // namespace cupel::gpu
