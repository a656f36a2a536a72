// cuBLAS, opened at run time. Executes the Gemm nodes of plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/block.h"
#include "plan/plan.h"

namespace cupel::gpu {

/// Operands as device addresses, in the order A, B, C.
struct GemmAddresses {
  CuPointer a = 0, b = 0, c = 0;
};

class Blas {
 public:
  /// Opens libcublas.so.13 or .12: $CUPEL_CUBLAS, else the loader's, else the CUDA toolkit's.
  /// kEnvironment if there is none. The library stays open. Borrows the device.
  static Result<std::unique_ptr<Blas>> Open(const Device& device);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Enqueues the product. kUnsupported if cuBLAS does not support the combination of types. For a
  /// batch of pointers, `addresses` are those of the three pointer arrays, else of the operands.
  Status Enqueue(const plan::Gemm& gemm, const GemmAddresses& addresses);
  /// cuBLAS's own memory. Its content is not needed between products.
  const Block& workspace() const { return workspace_; }

 private:
  struct Library;
  Blas(const Device& device, std::unique_ptr<Library> library, Block workspace);
  const Device& device_;
  std::unique_ptr<Library> library_;
  Block workspace_;
  void* handle_ = nullptr;
};

}  // namespace cupel::gpu
