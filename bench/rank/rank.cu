// Times the variants of one setting on a GPU: built by rank.py with -DRANK_TIMING and
// -DRANK_SETTING="NAME.cu". Prints a JSON array with, for each variant, the median time of a launch
// after the L2 was flushed (cold) and of one in a row of launches (warm), in microseconds, and how
// far its output is from the first variant's. SPDX-License-Identifier: Apache-2.0
#include RANK_SETTING

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

int rank_variant = 0;

namespace {

constexpr int kColdRuns = 41, kWarmRuns = 11, kRowOfLaunches = 20;
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

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// A graph of `launches` calls of Launch, one after the other.
cudaGraphExec_t Record(const std::vector<void*>& in, float* out, int launches, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin capture");
  for (int i = 0; i < launches; ++i) {
    Launch(reinterpret_cast<const void* const*>(in.data()), out, stream);
  }
  Check(cudaStreamEndCapture(stream, &graph), "end capture");
  Check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  return exec;
}

/// Microseconds of one replay, by events.
double Time(cudaGraphExec_t exec, cudaStream_t stream, cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  Check(cudaEventRecord(begin, stream), "event");
  Check(cudaGraphLaunch(exec, stream), "graph");
  Check(cudaEventRecord(end, stream), "event");
  Check(cudaEventSynchronize(end), "running");
  Check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  return milliseconds * 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  const int variants = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::vector<void*> in = MakeInputs();
  float* out = nullptr;
  char* flush = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaMalloc(&out, kOutput * sizeof(float)), "cudaMalloc");
  Check(cudaMalloc(&flush, kFlushBytes), "cudaMalloc");
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  Check(cudaEventCreate(&begin), "event");
  Check(cudaEventCreate(&end), "event");
  std::vector<float> first(kOutput), mine(kOutput);
  std::printf("[");
  for (rank_variant = 0; rank_variant < variants; ++rank_variant) {
    Check(cudaMemset(out, 0xff, kOutput * sizeof(float)), "memset");
    cudaGraphExec_t one = Record(in, out, 1, stream);
    cudaGraphExec_t row = Record(in, out, kRowOfLaunches, stream);
    for (int i = 0; i < 3; ++i) Time(one, stream, begin, end);
    Check(cudaMemcpy(mine.data(), out, kOutput * sizeof(float), cudaMemcpyDeviceToHost), "memcpy");
    if (rank_variant == 0) first = mine;
    double difference = 0, size = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      const double d = std::fabs(static_cast<double>(mine[i]) - first[i]);
      difference = d <= difference ? difference : d;  // a NaN stays
      size = std::max(size, std::fabs(static_cast<double>(first[i])));
    }
    std::vector<double> cold, warm;
    for (int i = 0; i < kColdRuns; ++i) {
      Check(cudaMemsetAsync(flush, i, kFlushBytes, stream), "flush");
      cold.push_back(Time(one, stream, begin, end));
    }
    Time(row, stream, begin, end);
    for (int i = 0; i < kWarmRuns; ++i) {
      warm.push_back(Time(row, stream, begin, end) / kRowOfLaunches);
    }
    std::printf("%s{\"cold_us\": %.3f, \"warm_us\": %.3f, \"difference\": %.3g}",
                rank_variant == 0 ? "" : ", ", Median(cold), Median(warm),
                size > 0 ? difference / size : difference);
  }
  std::printf("]\n");
  return 0;
}
