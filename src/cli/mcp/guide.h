// Instructions for language models: how to write kernels for cupel and use its tools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cupel::cli {

inline constexpr const char* kMcpInstructions =
    "cupel judges CUDA kernels against PyTorch operations. task_list and task_show describe the "
    "tasks. check says whether a kernel is correct, with reasons. profile shows what it spends its "
    "time on. bench measures it on a GPU. A kernel is one .cu file in the form of a PyTorch "
    "extension: a function forward (or backward) with the arguments that task_show shows, and "
    "PYBIND11_MODULE. The verdict \"rejected\" is a normal answer, not an error: read its reasons, "
    "change the kernel and check again, first with settings single, at the end with all. The "
    "resource cupel://guide has the rules and an example.";

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

- The function is `forward`, or `backward` for that direction. It gets the arguments that the task's code passes
  to `fn`, in the same order (see tool `task_show`, or the resource of the task). It returns what `fn` returns.
- Include `torch/extension.h` and any other headers of PyTorch, CUDA or CUB that you need. You may call cuBLAS.
  Framework mathematics (`at::conv2d`, `torch::mm`, arithmetic on tensors) is rejected.
- Kernels must compute every output from the inputs, at every size of the task and at sizes that are not shown.
  They must not write inputs. A call must not change the result of the next call.
- Host code runs in a sandbox that records launches. It cannot open files, start threads or read device memory.
- Mark constants that the tuner may change with a comment: `constexpr int kTile = 16;  // tune: kTile in 8, 16, 32`.

# Work

1. Call `task_show` for the reference, the sizes and the baseline kernel.
2. Call `check` with `"settings": "single"` until the kernel is accepted. Reasons name the source line, the element
   and the likely mistake.
3. Call `profile` for the bottleneck and the lines that cause it. Change the kernel and `check` again. Times are
   estimates of the emulator unless the device is a GPU.
4. Call `check` with `"settings": "all"`. Then, if there is a GPU (`doctor`), call `bench` for times against PyTorch.

Answers are short. Each call has a record number. To see the whole document of a call, use the tool `record` with
this number and a JSON pointer to the part of interest, or read the file `record_file`.
)";

}  // namespace cupel::cli
