// cuBLAS, opened at run time: what plans' Gemm nodes ask for.
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
  /// libcublas.so.13 or .12: $CUPEL_CUBLAS, the loader's, the CUDA toolkit's. kEnvironment when
  /// there is none. The library stays open; borrows the device.
  static Result<std::unique_ptr<Blas>> Open(const Device& device);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// Enqueues. kUnsupported names a combination of types that cuBLAS refuses; `pointers` are device
  /// addresses of the three arrays of pointers when the batch is one of pointers, else of operands.
  Status Enqueue(const plan::Gemm& gemm, const GemmAddresses& addresses);
  /// cuBLAS's own memory, which holds nothing between products.
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
