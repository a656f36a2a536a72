// The engine that needs no GPU. It executes a plan by interpreting its kernels' PTX on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"
#include "engine/engine.h"
#include "plan/operators.h"

namespace cupel::emu {

struct EmulatorOptions {
  int threads = 0;  // 0: one for each core this process may use
  /// Executes the operators of plans. Without it, plans with operators are unsupported.
  std::shared_ptr<plan::OperatorRunner> operators = nullptr;
};

/// Creates an engine that emulates `device`. The limits of the device decide which launches are
/// legal; its peak rates determine the estimates. Programs do not depend on the engine that loaded
/// them.
std::unique_ptr<engine::Engine> MakeEmulator(const device::Description& device,
                                             EmulatorOptions options = {});

}  // namespace cupel::emu
