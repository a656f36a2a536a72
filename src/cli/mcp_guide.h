// What a language model must know to write kernels for cupel and to use its tools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::cli {

inline constexpr const char* kMcpInstructions =
    "cupel judges CUDA kernels against PyTorch operations. task_list and task_show say what is "
    "asked; check says whether a kernel is right, with reasons; profile says what it spends its "
    "time on; bench measures it on a GPU. A kernel is one .cu file in the form of a PyTorch "
    "extension: a function forward (or backward) with the arguments that task_show shows, and "
    "PYBIND11_MODULE. A verdict \"rejected\" is an answer like any other: read its reasons, change "
    "the kernel, check again, first with settings single, at the end with all. The resource "
    "cupel://guide has the rules and an example.";

inline constexpr const char* kMcpGuide = R"(# Kernels for cupel

A candidate is one .cu file in the form of a PyTorch extension:

```cuda
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void Scale(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = 2.f * x[i];
}

torch::Tensor forward(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  Scale<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
```

- The function is `forward`, or `backward` for that direction. It gets the arguments with which the task's
  code calls `fn`, in that order (tool `task_show`, or the resource of the task), and returns what it returns.
- Include `torch/extension.h` and what else of PyTorch's, CUDA's or CUB's headers is needed. cuBLAS may be
  called. Framework mathematics (`at::conv2d`, `torch::mm`, arithmetic on tensors) is refused.
- Every output must be computed by kernels from the inputs, at every size of the task and at sizes that are not
  shown. Inputs must not be written. What one call leaves behind must not change the next.
- Host code runs in a sandbox that records launches: it can open no files, start no threads and read no device
  memory.
- Constants that the tuner may change carry a comment: `constexpr int kTile = 16;  // tune: kTile in 8, 16, 32`.

# Work

1. `task_show` for the reference, the sizes and the baseline kernel.
2. `check` with `"settings": "single"` until it is accepted; reasons name the source line, the element and the
   likely mistake.
3. `profile` for the bottleneck and the lines that cause it; change the kernel; `check` again. Times there are
   estimates of the emulator unless the device is a GPU.
4. `check` with `"settings": "all"`, then, where there is a GPU (`doctor`), `bench` for times against PyTorch.

Answers are short. The whole document of a call is under its number: tool `record`, with a JSON pointer to the part
of interest, or the file `record_file`.
)";

}  // namespace cupel::cli
