// SPDX-License-Identifier: Apache-2.0
#include "gpu/worker_library.h"

#include <array>
#include <string>

#include "gpu/operators.h"
#include "gpu/worker.h"

#define CUPEL_EXPORT __attribute__((visibility("default")))

namespace {

/// The one of this process: PyTorch's allocator is process-wide. Null before the worker runs.
cupel::gpu::Operators* the_operators = nullptr;

}  // namespace

extern "C" {

CUPEL_EXPORT int cupel_gpu_worker(int ordinal, CupelOperatorCall call) {
  cupel::gpu::Operators operators([call](const std::string& request) {
    std::array<char, 1000> message{};
    call(request.c_str(), message.data(), message.size());
    message.back() = '\0';
    return std::string(message.data());
  });
  the_operators = &operators;
  return cupel::gpu::RunWorker(ordinal, &operators);
}

CUPEL_EXPORT void cupel_gpu_no_worker(const char* message) {
  cupel::gpu::ReportNoWorker(
      {cupel::ErrorCode::kEnvironment, message,
       "operators of PyTorch on a GPU need a PyTorch with CUDA; the emulator needs none"});
}

CUPEL_EXPORT void* cupel_gpu_allocate(intptr_t bytes, int /*device*/, void* /*stream*/) {
  if (the_operators == nullptr || bytes < 0) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch takes the address as a pointer
  return reinterpret_cast<void*>(the_operators->Allocate(static_cast<uint64_t>(bytes)));
}

CUPEL_EXPORT void cupel_gpu_free(void* address, intptr_t /*bytes*/, int /*device*/,
                                 void* /*stream*/) {
  if (the_operators != nullptr) the_operators->Free(reinterpret_cast<uintptr_t>(address));
}
}
