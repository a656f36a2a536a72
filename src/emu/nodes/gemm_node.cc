// cuBLAS products of a plan: supported types, bounds checks, and batches.
// Tested by nodes_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "emu/nodes/gemm.h"
#include "emu/nodes/nodes.h"

namespace cupel::emu {
namespace {

using Wide = __int128;

constexpr int64_t kMostProducts = 1 << 20;

// The number of elements from the first to the last element of a column-major matrix.
Wide MatrixSpan(int64_t rows, int64_t cols, int64_t ld) {
  return rows == 0 || cols == 0 ? 0 : Wide{cols - 1} * ld + rows;
}

std::optional<GemmCompute> ComputeOf(const plan::Gemm& gemm) {
  const DType types[] = {gemm.a_type, gemm.b_type, gemm.c_type};
  const bool all_double =
      std::all_of(std::begin(types), std::end(types), [](DType t) { return t == DType::kF64; });
  const bool all_small = std::all_of(std::begin(types), std::end(types), [](DType t) {
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  });
  if (gemm.compute == "f64" && all_double) return GemmCompute::kF64;
  if (!all_small) return std::nullopt;
  if (gemm.compute == "f32") return GemmCompute::kF32;
  if (gemm.compute == "f32_tf32") return GemmCompute::kTF32;
  if (gemm.compute == "f16") return GemmCompute::kF16;
  return std::nullopt;
}

// The address `index` matrices after `address`. If the offset overflows, it becomes -1, which is
// outside every buffer.
plan::Address Advance(const plan::Address& address, int64_t index, int64_t stride, DType dtype) {
  const Wide offset = Wide{address.offset} + Wide{index} * stride * SizeOf(dtype);
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  return {address.buffer, offset < -kMost || offset > kMost ? -1 : static_cast<int64_t>(offset)};
}

uint64_t Bytes(Wide elements, DType dtype) {
  const Wide bytes = elements * SizeOf(dtype);
  return bytes > std::numeric_limits<int64_t>::max() ? std::numeric_limits<uint64_t>::max()
                                                     : static_cast<uint64_t>(bytes);
}

// Products of a batch may run in parallel if their results do not overlap.
bool Disjoint(std::vector<GemmProblem> batch, uint64_t c_bytes) {
  std::sort(batch.begin(), batch.end(),
            [](const GemmProblem& x, const GemmProblem& y) { return x.c < y.c; });
  for (size_t i = 1; i < batch.size(); ++i) {
    if (static_cast<uint64_t>(batch[i].c - batch[i - 1].c) < c_bytes) return false;
  }
  return true;
}

}  // namespace

NodeOutcome NodeRunner::Run(const plan::Gemm& gemm) const {
  NodeOutcome outcome;
  const std::optional<GemmCompute> compute = ComputeOf(gemm);
  if (!compute) {
    outcome.unsupported =
        fmt::format("matrix product of {} and {} to {} computed in {}", Name(gemm.a_type),
                    Name(gemm.b_type), Name(gemm.c_type), gemm.compute);
    return outcome;
  }
  const int64_t a_rows = gemm.transpose_a ? gemm.k : gemm.m;
  const int64_t a_cols = gemm.transpose_a ? gemm.m : gemm.k;
  const int64_t b_rows = gemm.transpose_b ? gemm.n : gemm.k;
  const int64_t b_cols = gemm.transpose_b ? gemm.k : gemm.n;
  if (gemm.m < 0 || gemm.n < 0 || gemm.k < 0 || gemm.lda < std::max<int64_t>(1, a_rows) ||
      gemm.ldb < std::max<int64_t>(1, b_rows) || gemm.ldc < std::max<int64_t>(1, gemm.m)) {
    return NodeFailure(
        "illegal_gemm",
        fmt::format("CUBLAS_STATUS_INVALID_VALUE: m {} n {} k {} with leading dimensions {}, "
                    "{}, {}, each of which must be at least the row count of its matrix",
                    gemm.m, gemm.n, gemm.k, gemm.lda, gemm.ldb, gemm.ldc));
  }
  if (gemm.m == 0 || gemm.n == 0) return outcome;
  const bool reads_ab = gemm.k > 0 && gemm.alpha != 0;
  const uint64_t a_bytes = reads_ab ? Bytes(MatrixSpan(a_rows, a_cols, gemm.lda), gemm.a_type) : 0;
  const uint64_t b_bytes = reads_ab ? Bytes(MatrixSpan(b_rows, b_cols, gemm.ldb), gemm.b_type) : 0;
  const uint64_t c_bytes = Bytes(MatrixSpan(gemm.m, gemm.n, gemm.ldc), gemm.c_type);

  const int64_t count =
      gemm.pointers.empty() ? gemm.batch : static_cast<int64_t>(gemm.pointers.size());
  if (count > kMostProducts) {
    return NodeFailure("illegal_gemm", fmt::format("a batch of {} matrix products", count));
  }
  std::vector<GemmProblem> batch;
  for (int64_t i = 0; i < count; ++i) {
    plan::Address a = Advance(gemm.a, i, gemm.stride_a, gemm.a_type);
    plan::Address b = Advance(gemm.b, i, gemm.stride_b, gemm.b_type);
    plan::Address c = Advance(gemm.c, i, gemm.stride_c, gemm.c_type);
    if (!gemm.pointers.empty()) {
      a = gemm.pointers[static_cast<size_t>(i)][0];
      b = gemm.pointers[static_cast<size_t>(i)][1];
      c = gemm.pointers[static_cast<size_t>(i)][2];
    }
    GemmProblem problem{gemm.m,
                        gemm.n,
                        gemm.k,
                        gemm.alpha,
                        gemm.beta,
                        {nullptr, gemm.a_type, gemm.lda, gemm.transpose_a},
                        {nullptr, gemm.b_type, gemm.ldb, gemm.transpose_b},
                        nullptr,
                        gemm.c_type,
                        gemm.ldc,
                        *compute};
    if (reads_ab) {
      problem.a.data = Access(a, a_bytes, "a matrix product", "reads", &outcome);
      if (!outcome.ok()) return outcome;
      problem.b.data = Access(b, b_bytes, "a matrix product", "reads", &outcome);
      if (!outcome.ok()) return outcome;
    }
    problem.c = Access(c, c_bytes, "a matrix product", "writes", &outcome);
    if (!outcome.ok()) return outcome;
    batch.push_back(problem);
  }
  if (batch.size() >= static_cast<size_t>(pool_.size()) && batch.size() > 1 &&
      Disjoint(batch, c_bytes)) {
    pool_.ParallelFor(batch.size(), 1, [&](uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) MultiplyMatrices(batch[i], nullptr);
    });
  } else {
    for (const GemmProblem& problem : batch) MultiplyMatrices(problem, &pool_);
  }
  return outcome;
}

}  // namespace cupel::emu
