// Fused AdamW step, grid-stride over float4 with a scalar tail.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <cmath>
#include <cstdint>
#include <vector>

struct AdamArgs {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inv_correction1, inv_correction2;
  float lr, decay, eps;
};

__device__ __forceinline__ void adam_update(float& p, float g, float& m, float& v,
                                            const AdamArgs& a) {
  m = a.beta1 * m + a.one_minus_beta1 * g;
  v = a.beta2 * v + a.one_minus_beta2 * g * g;
  const float denom = sqrtf(v * a.inv_correction2) + a.eps;
  p = p * a.decay - a.lr * (m * a.inv_correction1 / denom);
}

template <typename G>
__global__ void adam_kernel(const float* __restrict__ p, const G* __restrict__ g,
                            const float* __restrict__ m, const float* __restrict__ v,
                            float* __restrict__ p_out, float* __restrict__ m_out,
                            float* __restrict__ v_out, int64_t n, int64_t vectors, AdamArgs args) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t tid = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = tid; i < vectors; i += stride) {
    float4 pv = reinterpret_cast<const float4*>(p)[i];
    float4 mv = reinterpret_cast<const float4*>(m)[i];
    float4 vv = reinterpret_cast<const float4*>(v)[i];
    adam_update(pv.x, static_cast<float>(g[4 * i]), mv.x, vv.x, args);
    adam_update(pv.y, static_cast<float>(g[4 * i + 1]), mv.y, vv.y, args);
    adam_update(pv.z, static_cast<float>(g[4 * i + 2]), mv.z, vv.z, args);
    adam_update(pv.w, static_cast<float>(g[4 * i + 3]), mv.w, vv.w, args);
    reinterpret_cast<float4*>(p_out)[i] = pv;
    reinterpret_cast<float4*>(m_out)[i] = mv;
    reinterpret_cast<float4*>(v_out)[i] = vv;
  }
  for (int64_t i = vectors * 4 + tid; i < n; i += stride) {
    float pv = p[i], mv = m[i], vv = v[i];
    adam_update(pv, static_cast<float>(g[i]), mv, vv, args);
    p_out[i] = pv;
    m_out[i] = mv;
    v_out[i] = vv;
  }
}

static bool aligned16(const torch::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0;
}

std::vector<torch::Tensor> forward(torch::Tensor parameters, torch::Tensor gradient,
                                   torch::Tensor mean, torch::Tensor square, int64_t step,
                                   double learning_rate, double beta1, double beta2, double eps,
                                   double weight_decay) {
  parameters = parameters.contiguous();
  gradient = gradient.contiguous();
  mean = mean.contiguous();
  square = square.contiguous();
  auto p_out = torch::empty_like(parameters);
  auto m_out = torch::empty_like(mean);
  auto v_out = torch::empty_like(square);
  const int64_t n = parameters.numel();

  AdamArgs args;
  args.beta1 = beta1;
  args.one_minus_beta1 = 1.0 - beta1;
  args.beta2 = beta2;
  args.one_minus_beta2 = 1.0 - beta2;
  args.inv_correction1 = 1.0 / (1.0 - std::pow(beta1, static_cast<double>(step)));
  args.inv_correction2 = 1.0 / (1.0 - std::pow(beta2, static_cast<double>(step)));
  args.lr = learning_rate;
  args.decay = 1.0 - learning_rate * weight_decay;
  args.eps = eps;

  const bool vector = aligned16(parameters) && aligned16(mean) && aligned16(square) &&
                      aligned16(p_out) && aligned16(m_out) && aligned16(v_out);
  const int64_t vectors = vector ? n / 4 : 0;
  const int blocks = static_cast<int>(std::min<int64_t>((n + 255) / 256, 4096));
  auto stream = at::cuda::getCurrentCUDAStream();
  auto run = [&](auto* g) {
    adam_kernel<<<blocks, 256, 0, stream>>>(
        parameters.data_ptr<float>(), g, mean.data_ptr<float>(), square.data_ptr<float>(),
        p_out.data_ptr<float>(), m_out.data_ptr<float>(), v_out.data_ptr<float>(), n, vectors,
        args);
  };
  if (gradient.scalar_type() == torch::kBFloat16) {
    run(static_cast<const at::BFloat16*>(gradient.data_ptr<at::BFloat16>()));
  } else {
    run(static_cast<const float*>(gradient.data_ptr<float>()));
  }
  return {p_out, m_out, v_out};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "fused AdamW step"); }
