"""Kernels that compute a function in another way than its reference, for test_prove.py."""

WINOGRAD = r"""
#include <torch/extension.h>
// Winograd F(2x2, 3x3). Each thread computes one tile of one filter.
__device__ void Input(const float d[4], float o[4]) {
  o[0] = d[0] - d[2], o[1] = d[1] + d[2], o[2] = d[2] - d[1], o[3] = d[1] - d[3];
}
__device__ void Filter(const float g[3], float o[4]) {
  o[0] = g[0], o[1] = 0.5f * (g[0] + g[1] + g[2]), o[2] = 0.5f * (g[0] - g[1] + g[2]), o[3] = g[2];
}
__device__ void Output(const float m[4], float o[2]) {
  o[0] = m[0] + m[1] + m[2], o[1] = m[1] - m[2] - m[3];
}
__global__ void Convolve(const float* x, const float* w, float* y, int batch, int channels, int side, int filters) {
  const int tiles = (side - 2) / 2, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * filters * tiles * tiles) return;
  const int tx = i % tiles, ty = i / tiles % tiles, f = i / (tiles * tiles) % filters, b = i / (tiles * tiles * filters);
  float m[4][4] = {};
  for (int c = 0; c < channels; ++c) {
    float t[4][4], v[4][4], q[3][4], u[4][4];
    for (int r = 0; r < 4; ++r) Input(x + ((b * channels + c) * side + ty * 2 + r) * side + tx * 2, t[r]);
    for (int s = 0; s < 4; ++s) {
      const float d[4] = {t[0][s], t[1][s], t[2][s], t[3][s]};
      Input(d, v[s]);
    }
    for (int r = 0; r < 3; ++r) Filter(w + ((f * channels + c) * 3 + r) * 3, q[r]);
    for (int s = 0; s < 4; ++s) {
      const float g[3] = {q[0][s], q[1][s], q[2][s]};
      Filter(g, u[s]);
    }
    for (int s = 0; s < 4; ++s) {
      for (int r = 0; r < 4; ++r) m[r][s] += u[s][r] * v[s][r];
    }
  }
  float z[4][2];
  for (int r = 0; r < 4; ++r) Output(m[r], z[r]);
  for (int s = 0; s < 2; ++s) {
    const float d[4] = {z[0][s], z[1][s], z[2][s], z[3][s]};
    float o[2];
    Output(d, o);
    for (int r = 0; r < 2; ++r) y[((b * filters + f) * (side - 2) + ty * 2 + r) * (side - 2) + tx * 2 + s] = o[r];
  }
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  const int batch = x.size(0), side = x.size(2), filters = w.size(0);
  auto y = torch::empty({batch, filters, side - 2, side - 2}, x.options());
  const int threads = y.numel() / 4;
  Convolve<<<(threads + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), batch,
                                           x.size(1), side, filters);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

WELFORD = r"""
#include <torch/extension.h>
// Welford's variance of each row: one warp, whose lanes are merged at the end.
__global__ void Variance(const float* x, float* y, int columns) {
  float mean = 0, squares = 0, count = 0;
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float v = x[blockIdx.x * columns + i], d = v - mean;
    count += 1;
    mean += d / count;
    squares += d * (v - mean);
  }
  for (int o = 16; o > 0; o /= 2) {
    const float m = __shfl_xor_sync(~0u, mean, o), s = __shfl_xor_sync(~0u, squares, o);
    const float c = __shfl_xor_sync(~0u, count, o), total = count + c, d = m - mean;
    mean += d * c / total;
    squares += s + d * d * count * c / total;
    count = total;
  }
  if (threadIdx.x == 0) y[blockIdx.x] = squares / (count - 1);
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  Variance<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

LAYER_NORM = r"""
#include <torch/extension.h>
// Layer norm of rows of 64: one warp.
__device__ float Total(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__global__ void Normalize(const float* x, float* y) {
  const int at = blockIdx.x * 64 + threadIdx.x;
  const float mean = Total(x[at] + x[at + 32]) / 64, a = x[at] - mean, b = x[at + 32] - mean;
  const float scale = rsqrtf(Total(a * a + b * b) / 64 + 1e-5f);
  y[at] = a * scale;
  y[at + 32] = b * scale;
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Normalize<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

SPLIT_K = r"""
#include <torch/extension.h>
// A matrix product in four parts of the depth, and their sum.
__global__ void Part(const float* a, const float* b, float* parts, int m, int n, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, part = blockIdx.y, depth = k / 4;
  if (i >= m * n) return;
  float sum = 0;
  for (int d = part * depth; d < (part + 1) * depth; ++d) sum += a[i / n * k + d] * b[d * n + i % n];
  parts[part * m * n + i] = sum;
}
__global__ void Add(const float* parts, float* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = (parts[i] + parts[count + i]) + (parts[2 * count + i] + parts[3 * count + i]);
}
torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
  const int m = a.size(0), k = a.size(1), n = b.size(1), count = m * n;
  auto parts = torch::empty({4, m, n}, a.options()), y = torch::empty({m, n}, a.options());
  Part<<<dim3((count + 127) / 128, 4), 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), parts.data_ptr<float>(), m, n, k);
  Add<<<(count + 127) / 128, 128>>>(parts.data_ptr<float>(), y.data_ptr<float>(), count);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""

ONLINE_SOFTMAX = r"""
#include <torch/extension.h>
// Softmax of rows in one pass over the numbers: the sum is rescaled when the maximum grows.
__global__ void Softmax(const float* x, float* y, int columns) {
  const float* row = x + blockIdx.x * columns;
  float largest = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float next = fmaxf(largest, row[i]);
    sum = sum * __expf(largest - next) + __expf(row[i] - next);
    largest = next;
  }
  for (int o = 16; o > 0; o /= 2) {
    const float m = __shfl_xor_sync(~0u, largest, o), s = __shfl_xor_sync(~0u, sum, o), next = fmaxf(largest, m);
    sum = sum * __expf(largest - next) + s * __expf(m - next);
    largest = next;
  }
  for (int i = threadIdx.x; i < columns; i += 32) {
    const float weight = __expf(row[i] - largest);
    y[blockIdx.x * columns + i] = weight / sum;
  }
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  Softmax<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
