// Kernels whose threads work together as a block or a cluster: products (wgmma, tcgen05),
// mbarriers, asynchronous copies, tensor maps, clusters. Operands and layouts are random, and the
// results are those that PTX defines: sums are exact, and nothing depends on the order of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "exact.h"
#include "plan/tensor_map.h"
#include "ptx/ir.h"

namespace cupel::reference {

/// A tensor map that a kernel gets, of the tensor at the start of a buffer.
struct MapParameter {
  plan::TensorMap map;
  size_t buffer = 0;
};

/// Kernel k(b0, b1 …, m0, m1 …): pointers to the buffers, then tensor maps.
struct BlockKernel {
  std::string name;
  std::string text;  // a module
  uint32_t grid = 1, block = 128;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<MapParameter> maps;
};

std::vector<BlockKernel> ProductKernels();
std::vector<BlockKernel> TensorMemoryKernels();
std::vector<BlockKernel> TensorKernels();
std::vector<BlockKernel> CopyKernels();
std::vector<BlockKernel> BarrierKernels();
std::vector<BlockKernel> ClusterKernels();
/// The kernels of all families.
std::vector<BlockKernel> AllBlockKernels();

/// The parameters of a launch, with maps in cupel's layout. An address for each buffer.
std::vector<std::byte> BlockParameters(std::span<const uint64_t> addresses,
                                       std::span<const MapParameter> maps);
/// Runs a kernel of the module in the reference. Returns an error message, or an empty string.
std::string RunReference(const ptx::Module& module, const std::string& kernel, uint32_t grid,
                         uint32_t block, std::vector<std::vector<std::byte>>* buffers,
                         std::span<const MapParameter> maps = {});
/// Returns where the buffers differ, or an empty string.
std::string CompareBuffers(const std::vector<std::vector<std::byte>>& expected,
                           const std::vector<std::vector<std::byte>>& got);

// For the files that make kernels.

/// The module's head and the kernel's, up to its first instructions: %b0, %b1 … are the buffers,
/// %m0 … the maps, %t is the thread's number. `attributes` follow the parameters.
std::string BlockHead(size_t buffers, size_t maps, const std::string& attributes = "",
                      const std::string& target = "sm_90a");
/// Copies between a buffer and shared memory, 16 bytes per thread and step. `bytes` is a multiple
/// of 16.
std::string CopyIn(const std::string& buffer, const std::string& shared, size_t bytes,
                   uint32_t threads);
std::string CopyOut(const std::string& buffer, const std::string& shared, size_t bytes,
                    uint32_t threads);
/// Waits until a phase of an mbarrier is over. `label` is unique in the kernel, `order` is the
/// instruction's (".acquire.cluster"). Traps after many tries, so that no GPU hangs.
std::string WaitFor(const std::string& barrier, const std::string& parity, const std::string& label,
                    const std::string& order = "");
std::vector<std::byte> RandomBytes(size_t bytes, Random& random);
/// value * 2^exponent; exact in the format.
uint64_t SmallFloat(int value, int exponent, const Format& format);

}  // namespace cupel::reference
