// Times the variants of one setting on a GPU. rank.py builds it with -DRANK_TIMING and
// -DRANK_SETTING="NAME.cu". Prints a JSON array with, for each variant: the median time of a launch
// after an L2 flush (cold), and of one in a row of launches (warm); the time of an empty kernel;
// and the output's difference from the first variant's. Times are in microseconds.
// SPDX-License-Identifier: Apache-2.0
#include RANK_SETTING

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

int rank_variant = 0;

namespace {

constexpr int kColdRuns = 101, kWarmRuns = 21, kRowOfLaunches = 20;
constexpr size_t kFlushBytes = size_t{512} << 20;  // several times any L2

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

std::vector<void*> MakeInputs() {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  std::vector<void*> inputs;
  for (const RankInput& input : kInputs) {
    void* device = nullptr;
    if (input.below == 0) {
      std::vector<float> values(static_cast<size_t>(input.elements));
      for (float& value : values) value = normal(random);
      Check(cudaMalloc(&device, values.size() * sizeof(float)), "cudaMalloc");
      Check(cudaMemcpy(device, values.data(), values.size() * sizeof(float),
                       cudaMemcpyHostToDevice), "cudaMemcpy");
    } else {
      std::vector<int64_t> values(static_cast<size_t>(input.elements));
      const int64_t span = std::abs(input.below);
      for (int64_t& value : values) {
        value = static_cast<int64_t>(random() % static_cast<uint64_t>(span));
        if (input.below < 0) value = std::max<int64_t>(0, value - span / 2);
      }
      Check(cudaMalloc(&device, values.size() * sizeof(int64_t)), "cudaMalloc");
      Check(cudaMemcpy(device, values.data(), values.size() * sizeof(int64_t),
                       cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    inputs.push_back(device);
  }
  return inputs;
}

/// Reads more than any L2 holds. A flush that writes would leave dirty lines to write back.
__global__ void Flush(const float4* data, size_t count, float* never) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    sum += data[i].x;
  }
  if (sum == 1.0f) *never = sum;
}

__global__ void Nothing() {}

/// Device time of `launches` launches between two event nodes of a graph, without the host's launch
/// cost.
class Clock {
 public:
  template <class F>
  Clock(cudaStream_t stream, const float4* flush, float* never, int launches, const F& launch)
      : stream_(stream), launches_(launches) {
    Check(cudaEventCreate(&begin_), "event");
    Check(cudaEventCreate(&end_), "event");
    cudaGraph_t graph = nullptr;
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin capture");
    if (flush != nullptr) Flush<<<2048, 256, 0, stream>>>(flush, kFlushBytes / sizeof(float4), never);
    Check(cudaEventRecordWithFlags(begin_, stream, cudaEventRecordExternal), "event node");
    for (int i = 0; i < launches; ++i) launch();
    Check(cudaEventRecordWithFlags(end_, stream, cudaEventRecordExternal), "event node");
    Check(cudaStreamEndCapture(stream, &graph), "end capture");
    Check(cudaGraphInstantiate(&exec_, graph, 0), "instantiate");
  }

  /// The median over `replays` replays, in microseconds per launch.
  double Median(int replays) const {
    std::vector<double> times;
    for (int i = 0; i < replays + 2; ++i) {
      float milliseconds = 0;
      Check(cudaGraphLaunch(exec_, stream_), "graph");
      Check(cudaStreamSynchronize(stream_), "running");
      Check(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
      if (i >= 2) times.push_back(milliseconds * 1e3 / launches_);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  cudaStream_t stream_;
  int launches_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const int variants = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::vector<void*> in = MakeInputs();
  float *out = nullptr, *never = nullptr;
  float4* flush = nullptr;
  cudaStream_t stream = nullptr;
  Check(cudaMalloc(&out, kOutput * sizeof(float)), "cudaMalloc");
  Check(cudaMalloc(&never, sizeof(float)), "cudaMalloc");
  Check(cudaMalloc(&flush, kFlushBytes), "cudaMalloc");
  Check(cudaMemset(flush, 0, kFlushBytes), "memset");
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const Clock nothing(stream, flush, never, 1, [&] { Nothing<<<1, 32, 0, stream>>>(); });
  const double floor = nothing.Median(kColdRuns);
  std::vector<float> first(kOutput), mine(kOutput);
  std::printf("[");
  for (rank_variant = 0; rank_variant < variants; ++rank_variant) {
    Check(cudaMemset(out, 0xff, kOutput * sizeof(float)), "memset");
    auto launch = [&] { Launch(reinterpret_cast<const void* const*>(in.data()), out, stream); };
    const Clock cold(stream, flush, never, 1, launch);
    const Clock warm(stream, nullptr, never, kRowOfLaunches, launch);
    const double cold_us = cold.Median(kColdRuns), warm_us = warm.Median(kWarmRuns);
    Check(cudaMemcpy(mine.data(), out, kOutput * sizeof(float), cudaMemcpyDeviceToHost), "memcpy");
    if (rank_variant == 0) first = mine;
    double difference = 0, size = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      const double d = std::fabs(static_cast<double>(mine[i]) - first[i]);
      difference = d <= difference ? difference : d;  // a NaN stays
      size = std::max(size, std::fabs(static_cast<double>(first[i])));
    }
    std::printf("%s{\"cold_us\": %.3f, \"warm_us\": %.3f, \"empty_us\": %.3f, \"difference\": %.3g}",
                rank_variant == 0 ? "" : ", ", cold_us, warm_us, floor,
                size > 0 ? difference / size : difference);
  }
  std::printf("]\n");
  return 0;
}
