// SPDX-License-Identifier: Apache-2.0
#include "fast.h"

#include <cstring>

#include "emu/exec/launch.h"
#include "emu/ops/handlers.h"

namespace cupel::reference {

Fast::Fast(const ptx::Module& module, int vector_level) : pool_(1) {
  kernels_ = *emu::KernelModule::Decode(module, vector_level);
}

std::string Fast::Run(const std::string& name, uint32_t grid, uint32_t block,
                      std::span<std::vector<std::byte>* const> buffers,
                      std::span<const MapParameter> maps, bool full_checks) {
  const emu::Kernel* kernel = kernels_->Find(name);
  if (kernel == nullptr) return "no kernel " + name;
  auto memory = emu::GlobalMemory::Create();
  if (!memory) return memory.error().message;
  std::vector<uint64_t> addresses;
  for (const std::vector<std::byte>* buffer : buffers) {
    const auto address = memory->Allocate(buffer->size(), static_cast<int>(addresses.size()), false,
                                          "buffer " + std::to_string(addresses.size()));
    if (!address) return address.error().message;
    std::memcpy(memory->Host(*address), buffer->data(), buffer->size());
    addresses.push_back(*address);
  }
  const std::vector<std::byte> parameters = BlockParameters(addresses, maps);
  for (const ptx::Variable& variable : kernels_->module().variables) {
    if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) continue;
    const auto address = memory->Allocate(variable.bytes, -1, false, variable.name);
    if (!address) return address.error().message;
    std::memset(memory->Host(*address), 0, variable.bytes);
    std::memcpy(memory->Host(*address), variable.initializer.data(),
                std::min<size_t>(variable.initializer.size(), variable.bytes));
    memory->BindSymbol(variable.name, *address);
  }
  emu::LaunchRequest request;
  request.kernel = kernel;
  request.grid = {grid, 1, 1};
  request.block = {block, 1, 1};
  request.parameters = parameters;
  engine::RunOptions options;
  options.full_checks = full_checks;
  options.max_warp_instructions = options.max_block_warp_instructions = 100'000'000;
  const auto outcome = emu::RunLaunch(request, *memory, options, pool_);
  if (!outcome) return outcome.error().message;
  if (!outcome->unsupported.empty()) return "unsupported: " + outcome->unsupported;
  for (const records::Finding& finding : outcome->findings) {
    return finding.code + ": " + finding.message + " " + finding.where;
  }
  if (!outcome->completed) return "not completed";
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::memcpy(buffers[i]->data(), memory->Host(addresses[i]), buffers[i]->size());
  }
  return {};
}

std::vector<std::string> TableKeys() { return emu::Handlers().Names(); }

}  // namespace cupel::reference
