// Rotary embedding: queries and keys in a single launch, a block row per (head, token).
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <tuple>

template <typename scalar_t>
__global__ void rope_kernel(const scalar_t* __restrict__ q, const scalar_t* __restrict__ k,
                            const scalar_t* __restrict__ cos_table,
                            const scalar_t* __restrict__ sin_table, scalar_t* __restrict__ q_out,
                            scalar_t* __restrict__ k_out, int64_t q_rows, int64_t total_rows,
                            int tokens, int half) {
  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= total_rows) return;

  const scalar_t* src = q;
  scalar_t* dst = q_out;
  if (row >= q_rows) {
    row -= q_rows;
    src = k;
    dst = k_out;
  }
  const int token = static_cast<int>(row % tokens);
  src += row * 2 * half;
  dst += row * 2 * half;

  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float c = static_cast<float>(cos_table[static_cast<int64_t>(token) * half + i]);
    const float s = static_cast<float>(sin_table[static_cast<int64_t>(token) * half + i]);
    const float a = static_cast<float>(src[i]);
    const float b = static_cast<float>(src[i + half]);
    dst[i] = static_cast<scalar_t>(a * c - b * s);
    dst[i + half] = static_cast<scalar_t>(b * c + a * s);
  }
}

std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor query, torch::Tensor key,
                                                 torch::Tensor cosine, torch::Tensor sine) {
  query = query.contiguous();
  key = key.contiguous();
  cosine = cosine.contiguous();
  sine = sine.contiguous();
  auto q_out = torch::empty_like(query);
  auto k_out = torch::empty_like(key);

  const int size = static_cast<int>(query.size(3));
  const int tokens = static_cast<int>(query.size(2));
  const int64_t q_rows = query.numel() / size;
  const int64_t rows = q_rows + key.numel() / size;

  const dim3 block(32, 8);
  const dim3 grid(static_cast<unsigned>((rows + block.y - 1) / block.y));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, query.scalar_type(), "rope", [&] {
    rope_kernel<scalar_t><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
        query.data_ptr<scalar_t>(), key.data_ptr<scalar_t>(), cosine.data_ptr<scalar_t>(),
        sine.data_ptr<scalar_t>(), q_out.data_ptr<scalar_t>(), k_out.data_ptr<scalar_t>(), q_rows,
        rows, tokens, size / 2);
  });
  return std::make_tuple(q_out, k_out);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "rotary embedding"); }
