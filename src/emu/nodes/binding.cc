// Tested by emulator_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/nodes/binding.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "emu/core/call_stacks.h"
#include "emu/core/memory.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

bool LivesInMemory(const ptx::Variable& variable) {
  return !variable.is_extern &&
         (variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst);
}

using Modules = std::span<const ptx::Module* const>;  // by image

const ptx::Variable* FindVariable(Modules modules, const plan::Buffer& buffer) {
  if (static_cast<size_t>(buffer.image) >= modules.size()) return nullptr;
  for (const ptx::Variable& variable : modules[static_cast<size_t>(buffer.image)]->variables) {
    if (variable.name == buffer.symbol && LivesInMemory(variable)) return &variable;
  }
  return nullptr;
}

// Fills in the addresses in an initialiser later, when every variable has an address
// (InitialiseAddresses).
void Initialise(const ptx::Variable& variable, std::byte* at, uint64_t bytes) {
  const uint64_t given = std::min<uint64_t>(variable.initializer.size(), bytes);
  std::memcpy(at, variable.initializer.data(), given);
  std::memset(at + given, 0, bytes - given);
}

// A symbol without an address (an external variable) leaves zero. Dereferencing that pointer then
// accesses the null page, which is reported.
void InitialiseAddresses(const ptx::Module& module, int image, const GlobalMemory& memory) {
  for (const ptx::Variable& variable : module.variables) {
    const auto base = memory.SymbolAddress(variable.name, image);
    if (!base) continue;
    for (const ptx::Variable::SymbolInit& init : variable.symbol_inits) {
      auto target = memory.SymbolAddress(init.symbol, image);
      if (!target) target = AddressOfFunction(module, init.symbol);
      if (!target || !memory.Contains(*base + init.at, sizeof *target)) continue;
      const uint64_t value = *target + static_cast<uint64_t>(init.offset);
      std::memcpy(memory.Host(*base + init.at), &value, sizeof value);
    }
  }
}

Result<std::span<const std::byte>> ArgumentStorage(
    const plan::Buffer& buffer, std::span<const std::span<const std::byte>> arguments) {
  if (buffer.argument < 0 || static_cast<size_t>(buffer.argument) >= arguments.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the plan uses tensor argument {} of {}", buffer.argument, arguments.size()),
        "record the plan for this case");
  }
  const std::span<const std::byte> storage = arguments[static_cast<size_t>(buffer.argument)];
  if (storage.size() != buffer.bytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the plan was recorded with {} bytes for argument {}, which has {}",
                            buffer.bytes, buffer.argument, storage.size()),
                "record the plan for this case");
  }
  return storage;
}

/// Poisoning touches all memory, so even buffers that no kernel uses take memory of this machine.
Status CheckTotal(const plan::Plan& plan, Modules modules) {
  const auto physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  double total = 0;
  for (const plan::Buffer& buffer : plan.buffers) total += static_cast<double>(buffer.bytes);
  for (const ptx::Module* module : modules) {
    for (const ptx::Variable& variable : module->variables) {
      if (LivesInMemory(variable)) total += static_cast<double>(variable.bytes);
    }
  }
  if (total <= 0.75 * physical) return {};
  return Fail(ErrorCode::kEnvironment,
              fmt::format("a call uses {:.1f} GB of device memory, but the emulator may use only "
                          "three quarters of this machine's {:.1f} GB",
                          total / 1e9, physical / 1e9),
              "use smaller settings");
}

/// Shuffled so that results cannot depend on which of two buffers has the higher address.
std::vector<size_t> Shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Random(seed).Fork("order of buffers").Shuffle(order);
  return order;
}

Result<BoundBuffer> BindBuffer(const plan::Plan& plan, size_t index,
                               std::span<const std::span<const std::byte>> arguments,
                               Modules modules, GlobalMemory* memory) {
  const plan::Buffer& buffer = plan.buffers[index];
  std::span<const std::byte> contents;
  const ptx::Variable* variable = nullptr;
  uint64_t bytes = buffer.bytes;
  bool read_only = false;
  if (buffer.kind == plan::BufferKind::kArgument) {
    TRY_ASSIGN(contents, ArgumentStorage(buffer, arguments));
    read_only = plan::IsReadOnly(buffer);
  } else if (buffer.kind == plan::BufferKind::kSymbol) {
    variable = FindVariable(modules, buffer);
    if (variable != nullptr) {
      bytes = variable->bytes;
      read_only = variable->space == ptx::Space::kConst;
    }
  }
  std::string name = plan::NameOf(buffer, index);
  TRY_ASSIGN(const uint64_t address,
             memory->Allocate(bytes, static_cast<int>(index), read_only, name));
  std::byte* host = memory->Host(address);
  if (!contents.empty() && !memory->is_on_demand()) {
    std::memcpy(host, contents.data(), contents.size());
    if (!read_only) memory->MarkWritten(address, bytes);
  }
  if (buffer.kind == plan::BufferKind::kSymbol) {
    // If the module has no such variable, no kernel can refer to the symbol by name, but its
    // memory still starts as zeros.
    if (variable != nullptr)
      Initialise(*variable, host, bytes);
    else
      std::memset(host, 0, bytes);
    memory->BindSymbol(buffer.symbol, address, buffer.image);
    memory->MarkWritten(address, bytes);
  } else {
    memory->SetReachable(address, false);  // until a launch gets a pointer to it
  }
  return BoundBuffer{address, bytes, std::move(name)};
}

Status BindVariable(const ptx::Variable& variable, int image, GlobalMemory* memory) {
  TRY_ASSIGN(const uint64_t address,
             memory->Allocate(variable.bytes, -1, variable.space == ptx::Space::kConst,
                              "symbol " + ptx::Demangle(variable.name)));
  memory->MarkWritten(address, variable.bytes);
  Initialise(variable, memory->Host(address), variable.bytes);
  memory->BindSymbol(variable.name, address, image);
  return {};
}

}  // namespace

Result<std::vector<BoundBuffer>> BindPlan(const plan::Plan& plan,
                                          std::span<const std::span<const std::byte>> arguments,
                                          std::span<const ptx::Module* const> modules,
                                          uint64_t seed, GlobalMemory* memory, int poison) {
  if (!memory->is_on_demand()) TRY(CheckTotal(plan, modules));
  memory->Move(seed);
  memory->SetPoison(seed, poison);
  std::vector<std::pair<const ptx::Variable*, int>> others;  // with their image
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto image = static_cast<int>(i);
    for (const ptx::Variable& variable : modules[i]->variables) {
      if (LivesInMemory(variable) && !plan::HasVariable(plan, image, variable.name)) {
        others.emplace_back(&variable, image);
      }
    }
  }
  std::vector<BoundBuffer> bound(plan.buffers.size());
  for (const size_t i : Shuffled(bound.size() + others.size(), seed)) {
    if (i < bound.size()) {
      TRY_ASSIGN(bound[i], BindBuffer(plan, i, arguments, modules, memory));
    } else {
      const auto& [variable, image] = others[i - bound.size()];
      TRY(BindVariable(*variable, image, memory));
    }
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    InitialiseAddresses(*modules[i], static_cast<int>(i), *memory);
  }
  return bound;
}

}  // namespace cupel::emu
