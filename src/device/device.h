// Descriptions of GPUs: what cudaGetDeviceProperties returns to host code, the limits that launches
// are checked against, and the peaks that estimates use. Sources: CUDA programming guide tables
// (compute capabilities) and NVIDIA's data sheets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cupel::device {

struct Description {
  std::string name;          // "h100", "h200", "b200" …: the argument of --model
  std::string full_name;     // as cudaDeviceProp::name
  std::string uuid;          // of the GPU in this machine; empty for a description without a GPU
  int major = 9, minor = 0;  // compute capability
  int sm_count = 0;
  int clock_khz = 0;  // boost
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  uint64_t global_memory_bytes = 0;
  uint64_t l2_bytes = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int registers_per_sm = 65536;
  int registers_per_block = 65536;
  int max_registers_per_thread = 255;
  int register_allocation_unit = 256;  // per warp
  int shared_per_block = 48 << 10;     // without opting in
  int shared_per_block_optin = 0;
  int shared_per_sm = 0;
  int shared_reserved_per_block = 1 << 10;
  int shared_allocation_unit = 128;
  uint32_t max_grid_x = 0x7fffffff, max_grid_y = 65535, max_grid_z = 65535;
  uint32_t max_block_x = 1024, max_block_y = 1024, max_block_z = 64;
  // Peaks for estimates; per second.
  double dram_bytes = 0;  // achievable copy bandwidth, not the data sheet's
  double l2_bandwidth = 0;
  double fp32_flops = 0;
  double fp64_flops = 0;
  double tensor_flops = 0;       // dense, float16 inputs
  double launch_latency_us = 0;  // a dependent launch inside a stream or graph
};

/// Known descriptions, the default (h100) first.
const std::vector<Description>& All();
Result<Description> Find(std::string_view name);

struct Occupancy {
  int blocks_per_sm = 0;
  double fraction = 0;     // resident warps over the maximum
  std::string limited_by;  // "registers", "shared memory", "threads", "blocks"
};

/// The number of blocks of a kernel that fit on one SM, as in CUDA's occupancy calculator.
Occupancy ComputeOccupancy(const Description& device, int threads, int registers_per_thread,
                           int64_t shared_bytes);

}  // namespace cupel::device
