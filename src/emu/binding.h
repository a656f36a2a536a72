// Gives the buffers of a plan and the variables of a module their places and first contents in
// emulated memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "emu/memory.h"
#include "emu/nodes.h"
#include "plan/plan.h"
#include "ptx/ir.h"

namespace cupel::emu {

/// Places the plan's buffers and the module's other .global and .const variables in `memory`, which
/// must be empty, in an order and at addresses that `seed` draws. Arguments hold their storages,
/// variables their initialisers, temporaries and workspaces poison that depends on `seed`. An Error
/// means that plan and arguments do not belong together, or that memory does not suffice.
Result<std::vector<BoundBuffer>> BindPlan(const plan::Plan& plan,
                                          std::span<const std::span<const std::byte>> arguments,
                                          const ptx::Module& module, uint64_t seed,
                                          GlobalMemory* memory, int poison = 0);

}  // namespace cupel::emu
