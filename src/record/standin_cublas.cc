// The part of cuBLAS that candidates call: matrix products become plan nodes. All other cuBLAS
// functions are undefined symbols: the refusal of a candidate that uses them names them.
// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "record/standin.h"

namespace cupel::record {
namespace {

struct Context {
  uint64_t stream = kLegacyStream;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

std::set<const void*>& LiveHandles() {
  static std::set<const void*> live;
  return live;
}

Context* Find(cublasHandle_t handle) {
  return LiveHandles().contains(handle) ? reinterpret_cast<Context*>(handle) : nullptr;
}

std::optional<DType> ToDType(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return DType::kF32;
    case CUDA_R_64F:
      return DType::kF64;
    case CUDA_R_16F:
      return DType::kF16;
    case CUDA_R_16BF:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

std::optional<const char*> ToCompute(cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return "f16";
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return "f32";
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return "f32_f16";
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return "f32_bf16";
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return "f32_tf32";
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return "f64";
    default:
      return std::nullopt;
  }
}

/// Reads alpha or beta. Its type depends on the compute type.
double Scalar(const void* value, const std::string& compute) {
  if (CurrentSession().memory.InRange(reinterpret_cast<uint64_t>(value))) {
    RefuseUnsupported("unsupported_api", "cuBLAS scalars in device memory are not supported");
  }
  if (compute == "f64") return *static_cast<const double*>(value);
  if (compute == "f16") return HalfToFloat(*static_cast<const uint16_t*>(value));
  return *static_cast<const float*>(value);
}

struct Operand {
  const void* address;
  int ld;
  cudaDataType_t type;
  long long stride;
};

/// An operand whose matrices are at the addresses in `array`.
template <class T>
Operand Pointers(T* const* array, int ld, cudaDataType_t type) {
  return {static_cast<const void*>(array), ld, type, 0};
}

bool Transposed(cublasOperation_t op) { return op != CUBLAS_OP_N; }  // real types: C is T

struct Shape {
  cublasOperation_t op_a, op_b;
  int m, n, k;
};

/// Sets the members that all variants share. False for invalid values.
bool Prepare(RawGemm& raw, const Context& handle, const Shape& shape, const void* alpha,
             const void* beta, const Operand& a, const Operand& b, const Operand& c,
             cublasComputeType_t compute_type, int batch) {
  plan::Gemm& gemm = raw.gemm;
  const auto compute = ToCompute(compute_type);
  const auto type_a = ToDType(a.type);
  const auto type_b = ToDType(b.type);
  const auto type_c = ToDType(c.type);
  if (!compute || !type_a || !type_b || !type_c) {
    RefuseUnsupported("unsupported_api", "a cuBLAS product has types that cupel does not support");
  }
  gemm.compute = *compute;
  if (gemm.compute == "f32" && handle.math == CUBLAS_TF32_TENSOR_OP_MATH &&
      *type_a == DType::kF32) {
    gemm.compute = "f32_tf32";
  }
  gemm.transpose_a = Transposed(shape.op_a);
  gemm.transpose_b = Transposed(shape.op_b);
  gemm.m = shape.m, gemm.n = shape.n, gemm.k = shape.k;
  gemm.alpha = Scalar(alpha, gemm.compute);
  gemm.beta = Scalar(beta, gemm.compute);
  gemm.lda = a.ld, gemm.ldb = b.ld, gemm.ldc = c.ld;
  gemm.a_type = *type_a, gemm.b_type = *type_b, gemm.c_type = *type_c;
  gemm.batch = batch;
  if (batch > 1) gemm.stride_a = a.stride, gemm.stride_b = b.stride, gemm.stride_c = c.stride;
  const int rows_a = gemm.transpose_a ? shape.k : shape.m;
  const int rows_b = gemm.transpose_b ? shape.n : shape.k;
  return shape.m >= 0 && shape.n >= 0 && shape.k >= 0 && batch >= 0 && a.stride >= 0 &&
         b.stride >= 0 && c.stride >= 0 && a.ld >= std::max(1, rows_a) &&
         b.ld >= std::max(1, rows_b) && c.ld >= std::max(1, shape.m);
}

cublasStatus_t Gemm(cublasHandle_t opaque, const Shape& shape, const void* alpha, const Operand& a,
                    const Operand& b, const void* beta, const Operand& c,
                    cublasComputeType_t compute, int batch) {
  Context* handle = Find(opaque);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  RawGemm raw;
  if (!Prepare(raw, *handle, shape, alpha, beta, a, b, c, compute, batch)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (shape.m == 0 || shape.n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  raw.a = reinterpret_cast<uint64_t>(a.address);
  raw.b = reinterpret_cast<uint64_t>(b.address);
  raw.c = reinterpret_cast<uint64_t>(c.address);
  CurrentSession().Submit(handle->stream, std::move(raw));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t GemmPointers(cublasHandle_t opaque, const Shape& shape, const void* alpha,
                            const Operand& a, const Operand& b, const void* beta, const Operand& c,
                            cublasComputeType_t compute, int batch) {
  Context* handle = Find(opaque);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  RawGemm raw;
  if (!Prepare(raw, *handle, shape, alpha, beta, a, b, c, compute, batch)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (shape.m == 0 || shape.n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  raw.a_array = reinterpret_cast<uint64_t>(a.address);
  raw.b_array = reinterpret_cast<uint64_t>(b.address);
  raw.c_array = reinterpret_cast<uint64_t>(c.address);
  CurrentSession().Submit(handle->stream, std::move(raw));
  return CUBLAS_STATUS_SUCCESS;
}

/// y = alpha * op(A) * x + beta * y, computed as y' = x' * op(A)'. Row vectors allow any increment.
cublasStatus_t Gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const void* alpha,
                    const void* a, int lda, const void* x, int incx, const void* beta, void* y,
                    int incy, cudaDataType_t type, cublasComputeType_t compute) {
  if (incx < 0 || incy < 0) {
    RefuseUnsupported("unsupported_api",
                      "negative increments in a cuBLAS matrix-vector product are not supported");
  }
  const bool transposed = Transposed(op);
  const Shape shape{CUBLAS_OP_N, transposed ? CUBLAS_OP_N : CUBLAS_OP_T, 1, transposed ? n : m,
                    transposed ? m : n};
  return Gemm(handle, shape, alpha, {x, incx, type, 0}, {a, lda, type, 0}, beta, {y, incy, type, 0},
              compute, 1);
}

}  // namespace
}  // namespace cupel::record

using namespace cupel::record;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  auto created = std::make_unique<Context>();
  LiveHandles().insert(created.get());
  *handle = reinterpret_cast<cublasHandle_t>(created.release());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (LiveHandles().erase(handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete reinterpret_cast<Context*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  Context* found = Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  found->stream = StreamOf(stream);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  const Context* found = Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = std::bit_cast<cudaStream_t>(found->stream);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  Context* found = Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  found->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  const Context* found = Find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = found->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t /*handle*/, void* /*workspace*/,
                                     size_t /*bytes*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t /*handle*/, cublasPointerMode_t mode) {
  if (mode != CUBLAS_POINTER_MODE_HOST) {
    RefuseUnsupported("unsupported_api", "cuBLAS scalars in device memory are not supported",
                      "cublasSetPointerMode");
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t /*handle*/, cublasPointerMode_t* mode) {
  *mode = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t /*handle*/, cublasAtomicsMode_t /*mode*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*handle*/, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "the operation completed successfully"
                                         : "the cuBLAS call failed";
}
const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
  }
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_32F, 0}, {b, ldb, CUDA_R_32F, 0},
              beta, {c, ldc, CUDA_R_32F, 0}, CUBLAS_COMPUTE_32F, 1);
}
cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                              int m, int n, int k, const double* alpha, const double* a, int lda,
                              const double* b, int ldb, const double* beta, double* c, int ldc) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_64F, 0}, {b, ldb, CUDA_R_64F, 0},
              beta, {c, ldc, CUDA_R_64F, 0}, CUBLAS_COMPUTE_64F, 1);
}
cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m,
                           int n, int k, const __half* alpha, const __half* a, int lda,
                           const __half* b, int ldb, const __half* beta, __half* c, int ldc) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_16F, 0}, {b, ldb, CUDA_R_16F, 0},
              beta, {c, ldc, CUDA_R_16F, 0}, CUBLAS_COMPUTE_16F, 1);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t /*algo*/) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, a_type, 0}, {b, ldb, b_type, 0}, beta,
              {c, ldc, c_type, 0}, compute, 1);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta,
                                          cublasOperation_t tb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t /*algo*/) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, a_type, stride_a},
              {b, ldb, b_type, stride_b}, beta, {c, ldc, c_type, stride_c}, compute, batch);
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta,
                                         cublasOperation_t tb, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int batch) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_32F, stride_a},
              {b, ldb, CUDA_R_32F, stride_b}, beta, {c, ldc, CUDA_R_32F, stride_c},
              CUBLAS_COMPUTE_32F, batch);
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta,
                                         cublasOperation_t tb, int m, int n, int k,
                                         const double* alpha, const double* a, int lda,
                                         long long stride_a, const double* b, int ldb,
                                         long long stride_b, const double* beta, double* c, int ldc,
                                         long long stride_c, int batch) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_64F, stride_a},
              {b, ldb, CUDA_R_64F, stride_b}, beta, {c, ldc, CUDA_R_64F, stride_c},
              CUBLAS_COMPUTE_64F, batch);
}
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t ta,
                                         cublasOperation_t tb, int m, int n, int k,
                                         const __half* alpha, const __half* a, int lda,
                                         long long stride_a, const __half* b, int ldb,
                                         long long stride_b, const __half* beta, __half* c, int ldc,
                                         long long stride_c, int batch) {
  return Gemm(handle, {ta, tb, m, n, k}, alpha, {a, lda, CUDA_R_16F, stride_a},
              {b, ldb, CUDA_R_16F, stride_b}, beta, {c, ldc, CUDA_R_16F, stride_c},
              CUBLAS_COMPUTE_16F, batch);
}
cublasStatus_t cublasSgemmBatched(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                  int m, int n, int k, const float* alpha, const float* const a[],
                                  int lda, const float* const b[], int ldb, const float* beta,
                                  float* const c[], int ldc, int batch) {
  return GemmPointers(handle, {ta, tb, m, n, k}, alpha, Pointers(a, lda, CUDA_R_32F),
                      Pointers(b, ldb, CUDA_R_32F), beta, Pointers(c, ldc, CUDA_R_32F),
                      CUBLAS_COMPUTE_32F, batch);
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t ta,
                                   cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                   const void* const a[], cudaDataType a_type, int lda,
                                   const void* const b[], cudaDataType b_type, int ldb,
                                   const void* beta, void* const c[], cudaDataType c_type, int ldc,
                                   int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t /*algo*/) {
  return GemmPointers(handle, {ta, tb, m, n, k}, alpha, Pointers(a, lda, a_type),
                      Pointers(b, ldb, b_type), beta, Pointers(c, ldc, c_type), compute, batch);
}
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t op, int m, int n,
                              const float* alpha, const float* a, int lda, const float* x, int incx,
                              const float* beta, float* y, int incy) {
  return Gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy, CUDA_R_32F,
              CUBLAS_COMPUTE_32F);
}
cublasStatus_t cublasDgemv_v2(cublasHandle_t handle, cublasOperation_t op, int m, int n,
                              const double* alpha, const double* a, int lda, const double* x,
                              int incx, const double* beta, double* y, int incy) {
  return Gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy, CUDA_R_64F,
              CUBLAS_COMPUTE_64F);
}

}  // extern "C"
