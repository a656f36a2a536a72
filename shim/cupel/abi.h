// The C interface between a candidate's shared object (compiled against shim/) and the process that
// records it. Only plain data crosses it: no C++ types, exceptions or allocations.
// The recorder implements the cupel_rt_* functions. The candidate's object exports
// cupel_candidate_* through PYBIND11_MODULE or TORCH_LIBRARY. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUPEL_ABI_VERSION 1
#define CUPEL_MAX_DIMS 16
#define CUPEL_EXPORT __attribute__((visibility("default")))

enum { CUPEL_CPU = 0, CUPEL_CUDA = 1 }; /* device of a tensor */

/* dtype: c10::ScalarType numbers. sizes, strides and offset in elements; strides may be 0.
   The first element is at storage + offset * itemsize. */
typedef struct CupelTensor {
  uint64_t storage; /* address of the storage (fake when device == CUPEL_CUDA) */
  uint64_t storage_bytes;
  int64_t offset;
  int32_t dtype;
  int32_t device;
  int32_t ndim;
  int32_t reserved;
  int64_t sizes[CUPEL_MAX_DIMS];
  int64_t strides[CUPEL_MAX_DIMS];
} CupelTensor;

enum CupelKind {
  CUPEL_NONE = 0,
  CUPEL_BOOL = 1,   /* i */
  CUPEL_INT = 2,    /* i */
  CUPEL_DOUBLE = 3, /* d */
  CUPEL_STRING = 4, /* s, count bytes */
  CUPEL_TENSOR = 5, /* tensor */
  CUPEL_TUPLE = 6   /* items, count */
};

typedef struct CupelValue {
  int32_t kind;
  int32_t count;
  union {
    int64_t i;
    double d;
    const char* s;
    const CupelTensor* tensor;
    const struct CupelValue* items;
  };
} CupelValue;

/* How a call ended. */
enum CupelStatus {
  CUPEL_OK = 0,
  CUPEL_EXCEPTION = 1,     /* the candidate threw (TORCH_CHECK ...); message has its text */
  CUPEL_BAD_ARGUMENTS = 2, /* wrong number or types of arguments; message names the position */
  CUPEL_UNSUPPORTED = 3,   /* needs a framework operator that the shim lacks; message names it */
  CUPEL_NO_FUNCTION = 4
};

/* Receives the result of a call while the candidate's tensors are still alive. */
typedef void (*CupelReturn)(void* context, const CupelValue* result);
/* Receives one exported function: its name and a human-readable signature, e.g.
   "forward(x: Tensor, eps: float = 1e-05)". */
typedef void (*CupelDescribe)(void* context, const char* name, const char* signature);

/* ---- exported by the candidate's shared object (defined by the shim) ---- */
CUPEL_EXPORT int cupel_candidate_abi(void); /* CUPEL_ABI_VERSION */
CUPEL_EXPORT void cupel_candidate_describe(CupelDescribe describe, void* context);
/* Calls `function`; on failure `message` receives a NUL-terminated text of at most message_size
   bytes. */
CUPEL_EXPORT int cupel_candidate_call(const char* function, const CupelValue* args, int32_t count,
                                      CupelReturn ret, void* context, char* message,
                                      int32_t message_size);

/* ---- provided by the recorder ---- */
/* Device memory of the caching allocator (torch::empty): 512-byte aligned, never null; bytes may be
   0. */
uint64_t cupel_rt_alloc(uint64_t bytes);
void cupel_rt_free(uint64_t storage);
/* Element-wise copy with dtype conversion between CUDA tensors of equal sizes, on the current
   stream (contiguous(), to(dtype), copy_, clone). */
void cupel_rt_copy(const CupelTensor* to, const CupelTensor* from);
/* Fills all elements of a CUDA tensor with one element's bytes (zeros, ones, full, fill_, zero_).
 */
void cupel_rt_fill(const CupelTensor* to, const void* element);
/* Host bytes to a contiguous CUDA tensor (tensors made on the CPU and moved with .to(kCUDA)). */
void cupel_rt_upload(const CupelTensor* to, const void* bytes, uint64_t size);
/* .item(): reads one element of a CUDA tensor. Only one-element inputs have a value on the host;
   for any other tensor the recorder ends the recording with a refusal and does not return. */
void cupel_rt_item(const CupelTensor* from, void* element);
/* An operator of PyTorch, by the name of its overload ("aten::sum.dim_IntList"), with all arguments
   of its schema. Lists are tuples; dtypes, layouts and memory formats are PyTorch's numbers. The
   recorder describes each result: `shares` is the number of the tensor among the arguments, depth
   first, whose storage it has, or -1 for new memory of shape->storage_bytes bytes. The candidate
   makes the tensor and returns it. Ends the recording if the operator is not supported. */
typedef const CupelTensor* (*CupelTakeResult)(void* context, const CupelTensor* shape,
                                              int32_t shares);
void cupel_rt_operator(const char* name, const CupelValue* args, int32_t count,
                       CupelTakeResult take, void* context);
/* c10::cuda::getCurrentCUDAStream and the guards that change it. 0 is the legacy default stream. */
uint64_t cupel_rt_current_stream(void);
void cupel_rt_set_current_stream(uint64_t stream);
uint64_t cupel_rt_pool_stream(int32_t high_priority); /* getStreamFromPool */
/* Ends the recording with a refusal and never returns. `code` is e.g. "unsupported_operator";
   `message` is one sentence. */
void cupel_rt_refuse(const char* code, const char* message) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
