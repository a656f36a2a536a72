"""Candidates for the end-to-end tests: an honest kernel, and copies of it with one planted fault each."""

LINEAR = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int kTile = 16;

// One block computes a tile of kTile x kTile outputs; tiles of x and w pass through shared memory.
__global__ void linear_tiled(const float* __restrict__ x, const float* __restrict__ w,
                             const float* __restrict__ b, float* __restrict__ y, int rows, int cols,
                             int depth) {
  __shared__ float xs[kTile][kTile + 1];
  __shared__ float ws[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int col = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.f;
  for (int k0 = 0; k0 < depth; k0 += kTile) {
    const int k = k0 + threadIdx.x;
    const int wrow = blockIdx.x * kTile + threadIdx.y;
    xs[threadIdx.y][threadIdx.x] = (row < rows && k < depth) ? x[row * depth + k] : 0.f;
    ws[threadIdx.y][threadIdx.x] = (wrow < cols && k < depth) ? w[wrow * depth + k] : 0.f;
    __syncthreads();  // filled
    for (int j = 0; j < kTile; ++j) sum += xs[threadIdx.y][j] * ws[threadIdx.x][j];
    __syncthreads();  // used
  }
  if (row < rows && col < cols) y[row * cols + col] = sum + b[col];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  const int rows = x.size(0), depth = x.size(1), cols = weights.size(0);
  auto y = torch::empty({rows, cols}, x.options());
  const dim3 grid((cols + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  linear_tiled<<<grid, dim3(kTile, kTile), 0, c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weights.data_ptr<float>(), biases.data_ptr<float>(),
      y.data_ptr<float>(), rows, cols, depth);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "linear layer"); }
"""


def replaced(source, old, new):
    """Replaces the only occurrence of `old` in `source`."""
    assert source.count(old) == 1, (old, source.count(old))
    return source.replace(old, new)


def linear(old, new):
    return replaced(LINEAR, old, new)


# Faults in device code: (name, source, reason codes). The verdict must have at least one of the codes.
DEVICE_FAULTS = [
    ("bound_off_by_one", linear("if (row < rows && col < cols) y", "if (row < rows && col <= cols) y"),
     {"out_of_bounds"}),
    ("reads_past_the_end", linear("(row < rows && k < depth) ? x[row * depth + k]",
                                  "(row <= rows && k < depth) ? x[(row + 1) * depth + k]"),
     {"out_of_bounds"}),
    ("tail_of_the_sum_dropped", linear("k0 < depth; k0", "k0 < depth - kTile; k0"), {"wrong_result"}),
    ("last_rows_dropped", linear("if (row < rows && col < cols) y", "if (row < rows - 3 && col < cols) y"),
     {"not_finite", "wrong_result", "not_written"}),
    ("no_bias", linear("sum + b[col]", "sum"), {"wrong_result"}),
    ("swapped_index", linear("b[col]", "b[row % cols]"), {"wrong_result"}),
    ("no_first_barrier", linear("__syncthreads();  // filled", ""), {"shared_race", "uninitialized_shared"}),
    ("no_second_barrier", linear("__syncthreads();  // used", ""), {"shared_race"}),
    ("all_zeros", linear("sum + b[col]", "0.f * (sum + b[col])"), {"wrong_result"}),
    ("endless_kernel", linear("k0 < depth; k0 += kTile", "depth >= 0; k0 += 0"), {"instruction_budget"}),
    ("waits_for_a_flag", linear("  if (row < rows && col < cols) y[", "  while (go == 0) {\n  }\n"
                                "  if (row < rows && col < cols) y[")
     .replace("constexpr int kTile = 16;", "constexpr int kTile = 16;\n__device__ volatile int go;"),
     {"deadlock"}),
    ("misaligned", linear("if (row < rows && col < cols) y[row * cols + col] = sum + b[col];",
                          "if (row == 0 && col == 0) *reinterpret_cast<float4*>(y + 1) = "
                          "make_float4(sum, sum, sum, b[0]);"),
     {"misaligned"}),
    ("caches_in_device_variables", linear("  if (row < rows && col < cols) y[row * cols + col] = sum + b[col];",
                                          "  if (row < rows && col < cols) {\n"
                                          "    const int i = row * cols + col;\n"
                                          "    if (!filled[i]) { filled[i] = 1; kept[i] = sum + b[col]; }\n"
                                          "    y[i] = kept[i];\n  }")
     .replace("constexpr int kTile = 16;",
              "constexpr int kTile = 16;\n__device__ int filled[4096];\n__device__ float kept[4096];"),
     {"wrong_result"}),
    ("maximum_with_unwritten_memory", linear("y[row * cols + col] = sum + b[col];",
                                             "y[row * cols + col] = "
                                             "fmaxf(y[row * cols + col], sum + b[col]);"),
     {"wrong_result"}),
    ("spoils_and_returns_an_input", linear("return y;", "biases.fill_(0.f); return y;"), {"writes_input"}),
    ("writes_an_input", linear("y[row * cols + col] = sum + b[col];",
                               "{ y[row * cols + col] = sum + b[col]; "
                               "const_cast<float*>(b)[col] = 0.f; }"),
     {"writes_input", "wrong_result"}),
]

# Faults in host code or in the file itself.
HOST_FAULTS = [
    ("does_not_compile", linear("const int rows = x.size(0)", "const int rows = x.size(0"),
     "rejected", {"compile_error"}),
    ("no_module", linear('PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "linear layer"); }', ""),
     "rejected", {"no_module"}),
    ("no_forward", linear('m.def("forward"', 'm.def("run"'), "rejected", {"no_function"}),
    ("too_few_arguments", linear("torch::Tensor weights, torch::Tensor biases) {",
                                 "torch::Tensor weights) { auto biases = weights;"),
     "rejected", {"wrong_arguments"}),
    ("wrong_type_of_argument", linear("torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases)",
                                      "torch::Tensor forward(torch::Tensor x, torch::Tensor weights, int biases_)")
     .replace("biases.data_ptr<float>()", "weights.data_ptr<float>()"),
     "rejected", {"wrong_arguments"}),
    ("returns_two_tensors", replaced(linear("torch::Tensor forward(", "std::vector<torch::Tensor> forward("),
                                     "return y;", "return {y, y};"),
     "rejected", {"wrong_return"}),
    ("a_giant_view", linear("return y;", "return y.expand({26843545, rows, cols});"), "rejected", {"wrong_shape"}),
    ("a_giant_workspace", linear("return y;", "auto w = torch::empty({int64_t{1} << 40}, x.options()); "
                                              "w.fill_(1.f); return y;"), "rejected", {"host_exception"}),
    ("returns_an_earlier_result", linear("const int rows = x.size(0)",
                                         "static torch::Tensor kept; if (kept.defined()) return kept; "
                                         "const int rows = x.size(0)").replace("return y;", "kept = y; return y;"),
     "rejected", {"wrong_return"}),
    ("wrong_shape", linear("return y;", "return y.view({cols, rows});"), "rejected", {"wrong_shape"}),
    ("throws", linear('TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor")',
                      'TORCH_CHECK(x.dim() == 3, "x must have 3 dimensions")'), "rejected", {"host_exception"}),
    ("crashes", linear("return y;", "*reinterpret_cast<volatile int*>(8) = 1; return y;"), "rejected", {"host_crash"}),
    ("never_ends", linear("return y;", "volatile bool on = true; while (on) {} return y;"), "rejected", {"host_timeout"}),
    ("impossible_configuration", linear("dim3(kTile, kTile), 0,", "dim3(kTile * 8, kTile), 0,"), "rejected", {"illegal_launch"}),
    ("reads_device_memory", linear("return y;", "if (y.data_ptr<float>()[0] > 0) return x; return y;"),
     "rejected", {"reads_device_memory"}),
    ("item_of_a_result", linear("return y;", "if (y.select(0, 0).select(0, 0).item<float>() > 0) return x; return y;"),
     "rejected", {"reads_device_memory"}),
    ("framework_operator", linear("return y;", "return at::relu(y);"), "rejected", {"framework_operator"}),
    ("framework_method", linear("return y;", "return y.softmax(1);"), "rejected", {"framework_operator"}),
    ("shape_of_values", linear("return y;", "return at::nonzero(y);"), "unsupported", {"unsupported_operator"}),
    ("counts_calls", linear("return y;", "static int calls = 0; if (++calls > 100) return torch::empty_like(y); return y;"),
     "rejected", {"impure"}),
    ("caches_by_address", linear("const int rows = x.size(0)",
                                 "static void* seen = nullptr; static torch::Tensor kept; "
                                 "if (seen == x.data_ptr()) return kept; seen = x.data_ptr(); "
                                 "const int rows = x.size(0)").replace("return y;", "kept = y; return y;"),
     "rejected", {"impure"}),
    ("other_stream", linear("c10::cuda::getCurrentCUDAStream()>>>", "s>>>").replace(
        "const dim3 grid", "cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n  const dim3 grid"),
     "rejected", {"unordered_work"}),
    ("opens_a_file", linear("return y;", 'if (FILE* f = fopen("/etc/hostname", "r")) { fclose(f); } return y;')
     .replace("#include <torch/extension.h>", "#include <torch/extension.h>\n#include <cstdio>"),
     "rejected", {"host_privilege", None}),
    ("forks", linear("return y;", "if (fork() == 0) for (;;) {} return y;").replace(
        "#include <torch/extension.h>", "#include <torch/extension.h>\n#include <unistd.h>"),
     "rejected", {"host_privilege"}),
]
