// Tested by blas_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "gpu/library.h"

namespace cupel::gpu {
namespace {

constexpr uint64_t kWorkspaceBytes = 32u << 20;  // what NVIDIA recommends for Hopper
constexpr int kNotSupported = 15;                // CUBLAS_STATUS_NOT_SUPPORTED
constexpr int kDefaultAlgorithm = -1;            // CUBLAS_GEMM_DEFAULT

/// cudaDataType_t.
std::optional<int> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF64:
      return 1;
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 14;
    case DType::kI8:
      return 3;
    case DType::kI32:
      return 10;
    default:
      return {};
  }
}

/// cublasComputeType_t.
std::optional<int> ComputeOf(const std::string& compute) {
  constexpr std::pair<const char*, int> kComputes[] = {
      {"f16", 64}, {"f32", 68}, {"f32_f16", 74}, {"f32_bf16", 75}, {"f32_tf32", 77}, {"f64", 70}};
  for (const auto& [name, value] : kComputes) {
    if (compute == name) return value;
  }
  return {};
}

/// A factor in the type that the compute type requires.
struct Scalar {
  Scalar(double value, const std::string& compute) {
    const auto single = static_cast<float>(value);
    const uint16_t half = FloatToHalf(single);
    if (compute == "f64") {
      std::memcpy(bytes, &value, sizeof value);
    } else if (compute == "f16") {
      std::memcpy(bytes, &half, sizeof half);
    } else {
      std::memcpy(bytes, &single, sizeof single);
    }
  }
  alignas(8) unsigned char bytes[8] = {};
};

void* OpenCublas() {
  std::vector<std::string> names;
  if (const char* chosen = std::getenv("CUPEL_CUBLAS")) names.emplace_back(chosen);
  for (const char* version : {"13", "12"}) {
    for (const char* folder : {"", "/usr/local/cuda/lib64/"}) {
      names.push_back(fmt::format("{}libcublas.so.{}", folder, version));
    }
  }
  return OpenLibrary(names);
}

}  // namespace

struct Blas::Library {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, CuStream) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
  int (*gemm_strided)(void*, int, int, int, int, int, const void*, const void*, int, int, long long,
                      const void*, int, int, long long, const void*, void*, int, int, long long,
                      int, int, int) = nullptr;
  int (*gemm_pointers)(void*, int, int, int, int, int, const void*, const void* const*, int, int,
                       const void* const*, int, int, const void*, void* const*, int, int, int, int,
                       int) = nullptr;
  const char* (*status_name)(int) = nullptr;

  /// Null, or the name of a missing entry point.
  const char* Resolve(void* library) {
    EntryPoints entry(library);
    entry.Find(create, "cublasCreate_v2");
    entry.Find(destroy, "cublasDestroy_v2");
    entry.Find(set_stream, "cublasSetStream_v2");
    entry.Find(set_workspace, "cublasSetWorkspace_v2");
    entry.Find(gemm, "cublasGemmEx");
    entry.Find(gemm_strided, "cublasGemmStridedBatchedEx");
    entry.Find(gemm_pointers, "cublasGemmBatchedEx");
    entry.Find(status_name, "cublasGetStatusName");
    return entry.missing();
  }

  Status Check(int status, const char* what) const {
    if (status == 0) return {};
    return Fail(status == kNotSupported ? ErrorCode::kUnsupported : ErrorCode::kEnvironment,
                fmt::format("{} failed: {} ({})", what, status_name(status), status));
  }
};

Blas::Blas(const Device& device, std::unique_ptr<Library> library, Block workspace)
    : device_(device), library_(std::move(library)), workspace_(std::move(workspace)) {}

Blas::~Blas() {
  if (handle_ != nullptr) library_->destroy(handle_);
}

Result<std::unique_ptr<Blas>> Blas::Open(const Device& device) {
  void* opened = OpenCublas();
  auto library = std::make_unique<Library>();
  const char* missing = opened == nullptr ? "libcublas.so.13 or .12" : library->Resolve(opened);
  if (missing != nullptr) {
    return Fail(ErrorCode::kEnvironment, fmt::format("cuBLAS was not found: no {}", missing),
                "install the CUDA toolkit's libcublas, or set CUPEL_CUBLAS to its path");
  }
  TRY_ASSIGN(Block workspace, Block::Allocate(device, kWorkspaceBytes));
  std::unique_ptr<Blas> blas(new Blas(device, std::move(library), std::move(workspace)));
  const Library& lib = *blas->library_;
  TRY(lib.Check(lib.create(&blas->handle_), "starting cuBLAS"));
  TRY(lib.Check(lib.set_stream(blas->handle_, device.stream()), "giving cuBLAS a stream"));
  // Provide a workspace: allocations by cuBLAS itself cannot be captured into a graph.
  TRY(lib.Check(lib.set_workspace(blas->handle_, std::bit_cast<void*>(blas->workspace_.address()),
                                  kWorkspaceBytes),
                "giving cuBLAS a workspace"));
  return blas;
}

Status Blas::Enqueue(const plan::Gemm& gemm, const GemmAddresses& at) {
  const auto a_type = TypeOf(gemm.a_type), b_type = TypeOf(gemm.b_type),
             c_type = TypeOf(gemm.c_type), compute = ComputeOf(gemm.compute);
  if (!a_type || !b_type || !c_type || !compute) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("cuBLAS does not support a product of {} and {} into {} computed in {}",
                            Name(gemm.a_type), Name(gemm.b_type), Name(gemm.c_type), gemm.compute));
  }
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (const int64_t size : {gemm.m, gemm.n, gemm.k, gemm.lda, gemm.ldb, gemm.ldc, gemm.batch}) {
    if (size > kMost) return Fail(ErrorCode::kUnsupported, "the cuBLAS product is too large");
  }
  const Scalar alpha(gemm.alpha, gemm.compute), beta(gemm.beta, gemm.compute);
  const int ta = gemm.transpose_a ? 1 : 0, tb = gemm.transpose_b ? 1 : 0;
  const auto m = static_cast<int>(gemm.m), n = static_cast<int>(gemm.n),
             k = static_cast<int>(gemm.k), lda = static_cast<int>(gemm.lda),
             ldb = static_cast<int>(gemm.ldb), ldc = static_cast<int>(gemm.ldc);
  auto pointer = [](CuPointer address) { return std::bit_cast<void*>(address); };
  int status = 0;
  if (!gemm.pointers.empty()) {
    status = library_->gemm_pointers(
        handle_, ta, tb, m, n, k, alpha.bytes, std::bit_cast<const void* const*>(at.a), *a_type,
        lda, std::bit_cast<const void* const*>(at.b), *b_type, ldb, beta.bytes,
        std::bit_cast<void* const*>(at.c), *c_type, ldc, static_cast<int>(gemm.pointers.size()),
        *compute, kDefaultAlgorithm);
  } else if (gemm.batch > 1) {
    status = library_->gemm_strided(handle_, ta, tb, m, n, k, alpha.bytes, pointer(at.a), *a_type,
                                    lda, gemm.stride_a, pointer(at.b), *b_type, ldb, gemm.stride_b,
                                    beta.bytes, pointer(at.c), *c_type, ldc, gemm.stride_c,
                                    static_cast<int>(gemm.batch), *compute, kDefaultAlgorithm);
  } else {
    status = library_->gemm(handle_, ta, tb, m, n, k, alpha.bytes, pointer(at.a), *a_type, lda,
                            pointer(at.b), *b_type, ldb, beta.bytes, pointer(at.c), *c_type, ldc,
                            *compute, kDefaultAlgorithm);
  }
  return library_->Check(status, "a cuBLAS product");
}

}  // namespace cupel::gpu
