// Places the buffers of a plan and the variables of its modules in emulated memory and initialises
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "emu/core/memory.h"
#include "emu/nodes/nodes.h"
#include "plan/plan.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// Places the plan's buffers and the modules' other .global and .const variables in `memory`, which
/// must be empty. `modules` are those of the images. `seed` determines the order and the addresses.
/// Initial contents:
/// - arguments: their storages in `arguments`
/// - variables: their initialisers
/// - temporaries and workspaces: poison that depends on `seed`
/// Memory on demand has only the initialisers of variables.
/// Returns an Error if plan and arguments do not match, or if there is not enough memory.
Result<std::vector<BoundBuffer>> BindPlan(const plan::Plan& plan,
                                          std::span<const std::span<const std::byte>> arguments,
                                          std::span<const ptx::Module* const> modules,
                                          uint64_t seed, GlobalMemory* memory, int poison = 0);

}  // namespace cupel::emu
