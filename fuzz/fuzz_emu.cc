// Hostile PTX in the interpreter: input that parses is decoded and run, one block with a small
// budget. Findings and "unsupported" are fine. Crashes, and accesses outside the kernel's memory,
// are failures.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/launch.h"
#include "harness.h"
#include "ptx/parser.h"

namespace cupel::fuzz {
namespace {

constexpr uint64_t kMaxVariableBytes = 1u << 20;
constexpr size_t kMaxKernels = 4;
constexpr uint64_t kBufferBytes = 4096;
constexpr uint32_t kMaxParameterBytes = 1u << 16;

emu::GlobalMemory& Memory() {
  static emu::GlobalMemory memory = std::move(*emu::GlobalMemory::Create());
  memory.Reset();
  return memory;
}

/// Allocates the module's variables. Returns false if they are too many or too large to run.
bool PlaceVariables(const ptx::Module& module, emu::GlobalMemory& memory) {
  for (const ptx::Variable& variable : module.variables) {
    if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) continue;
    if (variable.bytes > kMaxVariableBytes) return false;
    const auto address = memory.Allocate(variable.bytes, -1, false, variable.name);
    if (!address) return false;
    std::memset(memory.Host(*address), 0, variable.bytes);
    std::memcpy(memory.Host(*address), variable.initializer.data(),
                std::min<size_t>(variable.initializer.size(), variable.bytes));
    memory.BindSymbol(variable.name, *address);
  }
  return module.variables.size() < 64;
}

/// Fills the parameters with pointers to the buffer, so that loads and stores have a valid address.
std::vector<std::byte> Parameters(uint32_t bytes, uint64_t address) {
  std::vector<std::byte> parameters((bytes + 7) / 8 * 8);
  for (size_t at = 0; at < parameters.size(); at += 8) {
    std::memcpy(parameters.data() + at, &address, sizeof address);
  }
  return parameters;
}

void RunKernel(const emu::Kernel& kernel, emu::GlobalMemory& memory, uint64_t address,
               emu::ThreadPool& pool) {
  if (kernel.param_bytes > kMaxParameterBytes) return;
  const std::vector<std::byte> parameters = Parameters(kernel.param_bytes, address);
  emu::LaunchRequest request;
  request.kernel = &kernel;
  request.grid = {1, 1, 1};
  request.block = {40, 1, 1};  // one full warp and one partial warp
  request.dynamic_shared = 256;
  request.parameters = parameters;
  engine::RunOptions options;
  options.max_warp_instructions = 20'000;
  options.max_block_warp_instructions = 20'000;
  options.full_checks = kernel.param_bytes % 16 != 0;  // on for some inputs only
  const auto outcome = emu::RunLaunch(request, memory, options, pool);
  if (!outcome) {
    CHECK(!outcome.error().message.empty());
    return;
  }
  CHECK(outcome->completed || !outcome->unsupported.empty() || !outcome->findings.empty());
  CHECK(kernel.unsupported.empty() || outcome->unsupported == kernel.unsupported);
}

}  // namespace

void RunOne(std::string_view input) {
  const auto module = ptx::Parse(input);
  if (!module) return;
  static emu::ThreadPool pool(1);
  emu::GlobalMemory& memory = Memory();
  if (!PlaceVariables(*module, memory)) return;
  const auto address = memory.Allocate(kBufferBytes, 0, false, "buffer");
  if (!address) return;
  std::memset(memory.Host(*address), 0x3f, kBufferBytes);
  const auto kernels = emu::KernelModule::Decode(*module, static_cast<int>(input.size() % 3));
  CHECK(kernels.has_value());
  size_t count = 0;
  for (const ptx::Function& function : module->functions) {
    if (!function.is_entry || function.is_declaration || ++count > kMaxKernels) continue;
    const emu::Kernel* kernel = (*kernels)->Find(function.name);
    CHECK(kernel != nullptr);
    CHECK((kernel->code != nullptr) == kernel->unsupported.empty());
    RunKernel(*kernel, memory, *address, pool);
  }
}

}  // namespace cupel::fuzz
