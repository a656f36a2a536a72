// Matrix products for plan::Gemm: D = alpha * op(A) * op(B) + beta * D, column-major, on host
// memory that the caller has checked. Blocked, packed, vectorised, threaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "emu/core/thread_pool.h"

namespace cupel::emu {

/// How products are formed and summed.
enum class GemmCompute {
  kF32,   // operands as float32, sums in float32
  kTF32,  // float32 operands rounded to 10 mantissa bits, ties away from zero (cvt.rna.tf32)
  kF16,   // sums rounded to float16 after every 16 products, the depth of one mma instruction
  kF64,
};

/// A column-major operand: element (i, j) of the matrix as stored is at data[i + j * ld].
struct GemmOperand {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t ld = 0;
  bool transposed = false;
};

struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  GemmOperand a, b;
  std::byte* c = nullptr;  // read only when beta is not zero
  DType c_type = DType::kF32;
  int64_t ldc = 0;
  GemmCompute compute = GemmCompute::kF32;
};

/// One product, on the calling thread when the pool is null.
void MultiplyMatrices(const GemmProblem& problem, ThreadPool* pool);

}  // namespace cupel::emu
