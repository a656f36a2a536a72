// The state of a GPU at one moment, the rates that it reaches, and the energy that calls use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cupel::records {

struct GpuState {
  int sm_mhz = 0, memory_mhz = 0, temperature_c = 0;
  double power_w = 0;
  std::vector<std::string> throttled_by;  // "power cap", "thermal slowdown", …
  int processes = 0;                      // with a context on the same GPU, including ours
};

/// What does a task's arithmetic: the fastest unit whose precision the task's contract allows.
enum class ArithmeticUnit { kFloat32, kTf32, kSixteenBit, kEightBit, kFloat64 };
/// "16-bit tensor cores".
std::string_view Name(ArithmeticUnit unit);

/// The rates that a GPU actually reaches, as measured. Times are compared with these.
struct Ceilings {
  std::string gpu;                        // "NVIDIA H200"
  double read_bytes = 0;                  // per second, from cold DRAM
  double copy_bytes = 0;                  // read and written together
  double fp32_flops = 0;                  // fused multiply-add
  double tf32_flops = 0, bf16_flops = 0;  // cuBLAS; 0 without it
  double launch_us = 0;                   // of a dependent launch in a graph
  double fp64_flops = 0;                  // cuBLAS; 0 without it
};

struct EnergyUse {
  double joules = 0;  // of one warm call, including the idle GPU's share
  double watts = 0;
  int64_t calls = 0;
};

}  // namespace cupel::records
