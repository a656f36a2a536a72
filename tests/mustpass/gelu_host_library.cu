// task: gelu
// settings: all
// note: host code that uses much of the C++ library: streams, maps, mutex, call_once, text, numbers
// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <algorithm>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

__global__ void Gelu(const float* x, float* y, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i], u = 0.7978845608f * (v + 0.044715f * v * v * v);
  y[i] = 0.5f * v * (2.f - 2.f / (1.f + __expf(2.f * u)));
}

int Threads(int64_t n) {
  static std::mutex mutex;
  static std::once_flag once;
  static std::map<std::string, int> known;
  static std::unordered_map<int64_t, std::string> names;
  std::call_once(once, [] { known["small"] = 64, known["large"] = 256; });
  const std::lock_guard<std::mutex> lock(mutex);
  std::ostringstream text;
  text << std::setw(3) << (n < 4096 ? "small" : "large");
  names[n] = std::to_string(n) + text.str();
  std::istringstream back(names[n]);
  int64_t number = 0;
  std::string name;
  back >> number >> name;
  if (number != n) std::cerr << "gelu: " << std::fixed << number << std::endl;
  std::vector<int> sizes(known.size());
  std::transform(known.begin(), known.end(), sizes.begin(), [](auto& k) { return k.second; });
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  const auto largest = std::make_shared<int>(std::accumulate(sizes.begin(), sizes.begin() + 1, 0));
  return std::min(*largest, known.at(name));
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int64_t n = x.numel();
  const int threads = Threads(n);
  Gelu<<<(n + threads - 1) / threads, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
