// A kernel of the reviewers' labelled set. Only labels.json says what is wrong with it; this file
// does not. The head is as long as those of right kernels, so that blanked comments give no
// hint.
//
// SPDX-License-Identifier: Apache-2.0
#include <torch/extension.h>

__global__ void ConvReluPool(const float* x, const float* w, const float* b, float* y, int channels,
                             int height, int width, int outs, int side, int pooled_h,
                             int pooled_w) {
  extern __shared__ float filter[];
  const int o = blockIdx.x, image = blockIdx.y, taps = channels * side * side;
  for (int i = threadIdx.x; i < taps; i += blockDim.x) filter[i] = w[o * taps + i];
  __syncthreads();
  for (int p = threadIdx.x; p < pooled_h * pooled_w; p += blockDim.x) {
    float best = 0;  // ReLU: nothing below zero
    for (int dy = 0; dy < 2; ++dy) {
      for (int dx = 0; dx < 2; ++dx) {
        const int row = p / pooled_w * 2 + dy, column = p % pooled_w * 2 + dx;
        float sum = b[o];
        for (int c = 0; c < channels; ++c) {
          for (int i = 0; i < side; ++i) {
            for (int j = 0; j < side; ++j) {
              sum += x[((image * channels + c) * height + row + i) * width + column + j] *
                     filter[(c * side + side - 1 - i) * side + side - 1 - j];
            }
          }
        }
        best = fmaxf(best, sum);
      }
    }
    y[((image * outs + o) * pooled_h) * pooled_w + p] = best;
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  const int batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const int outs = w.size(0), side = w.size(2);
  const int pooled_h = (height - side + 1) / 2, pooled_w = (width - side + 1) / 2;
  auto y = torch::empty({batch, outs, pooled_h, pooled_w}, x.options());
  ConvReluPool<<<dim3(outs, batch), 128, channels * side * side * sizeof(float)>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), channels,
      height, width, outs, side, pooled_h, pooled_w);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
