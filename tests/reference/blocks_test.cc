// Compares the fast interpreter with the reference for kernels of blocks and clusters, with each
// set of vector instructions, and once more with all checks, which must find nothing.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emu/ops/handlers.h"
#include "fast.h"
#include "ptx/parser.h"

namespace cupel::reference {
namespace {

/// Runs the kernel in every way. Returns the first error, or an empty string.
std::string Check(const BlockKernel& kernel) {
  const auto module = ptx::Parse(kernel.text);
  if (!module) return "parser: " + module.error().message;
  std::vector<std::vector<std::byte>> expected = kernel.buffers;
  const std::string error =
      RunReference(*module, "k", kernel.grid, kernel.block, &expected, kernel.maps);
  if (!error.empty()) return "reference: " + error;
  if (expected == kernel.buffers && kernel.maps.empty()) return "the kernel does nothing";
  for (int way = 0; way <= emu::VectorLevel() + 1; ++way) {
    const bool checks = way > emu::VectorLevel();
    Fast fast(*module, way);
    std::vector<std::vector<std::byte>> got = kernel.buffers;
    std::vector<std::vector<std::byte>*> buffers;
    for (auto& buffer : got) buffers.push_back(&buffer);
    std::string wrong = fast.Run("k", kernel.grid, kernel.block, buffers, kernel.maps, checks);
    if (wrong.empty()) wrong = CompareBuffers(expected, got);
    if (!wrong.empty()) return fmt::format("{}: {}", checks ? "with checks" : "without", wrong);
  }
  return {};
}

void CheckAll(const std::vector<BlockKernel>& kernels) {
  int failures = 0;
  for (const BlockKernel& kernel : kernels) {
    const std::string wrong = Check(kernel);
    if (wrong.empty() || ++failures > 10) continue;
    ADD_FAILURE() << kernel.name << ": " << wrong << (failures == 1 ? "\n" + kernel.text : "");
  }
  EXPECT_EQ(failures, 0) << "of " << kernels.size();
}

TEST(Blocks, ProductsAgree) { CheckAll(ProductKernels()); }
TEST(Blocks, TensorMemoryAgrees) { CheckAll(TensorMemoryKernels()); }
TEST(Blocks, TensorCopiesAgree) { CheckAll(TensorKernels()); }
TEST(Blocks, CopiesAgree) { CheckAll(CopyKernels()); }
TEST(Blocks, BarriersAgree) { CheckAll(BarrierKernels()); }
TEST(Blocks, ClustersAgree) { CheckAll(ClusterKernels()); }

}  // namespace
}  // namespace cupel::reference
