// A candidate for the recorder's tests. It implements the C interface of shim/cupel/abi.h directly,
// so that these tests do not depend on the shim. Each function is one kind of host code behaviour.
// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cupel/abi.h"

struct Padded {
  int count;  // four bytes of padding follow
  float* out;
  const float* in;
};

__constant__ float coefficients[16];
__device__ int launches;

__global__ void Scale(const float* in, float* out, int n, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor * coefficients[0] + static_cast<float>(launches);
}
__global__ void ByStruct(Padded p) {
  if (threadIdx.x < p.count) p.out[threadIdx.x] = p.in[threadIdx.x];
}
__global__ void Table(float* const* pointers, int n) { pointers[blockIdx.x][threadIdx.x] = n; }
__global__ void BigShared(float* out) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

struct Maps {
  int n;
  CUtensorMap map;  // at a multiple of its alignment
  float* out;
};
__device__ CUtensorMap kept_map;
__global__ void ByMap(const __grid_constant__ CUtensorMap map, const __grid_constant__ Maps maps) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
  asm volatile("prefetch.tensormap [%0];" ::"l"(&maps.map) : "memory");
  if (threadIdx.x < maps.n) maps.out[threadIdx.x] = 0;
}
__global__ void ByKeptMap(float* out) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&kept_map) : "memory");
  out[threadIdx.x] = 0;
}
__global__ void __cluster_dims__(2, 1, 1) Clustered(float* out) { out[blockIdx.x] = 0; }
__global__ void Unclustered(float* out) { out[blockIdx.x] = 0; }

namespace {

struct Args {
  const CupelValue* values;
  int count;
  const CupelTensor& tensor(int i) const { return *values[i].tensor; }
  float* data(int i) const {
    return reinterpret_cast<float*>(tensor(i).storage +
                                    4 * static_cast<uint64_t>(tensor(i).offset));
  }
  int numel(int i) const {
    int64_t n = 1;
    for (int d = 0; d < tensor(i).ndim; ++d) n *= tensor(i).sizes[d];
    return static_cast<int>(n);
  }
};

/// A contiguous float tensor that frees its storage.
struct Tensor {
  CupelTensor t{};
  explicit Tensor(int n) {
    t.storage = cupel_rt_alloc(4 * static_cast<uint64_t>(n));
    t.storage_bytes = 4 * static_cast<uint64_t>(n);
    t.dtype = 6;
    t.device = CUPEL_CUDA;
    t.ndim = 1;
    t.sizes[0] = n;
    t.strides[0] = 1;
  }
  Tensor(const Tensor&) = delete;
  ~Tensor() { cupel_rt_free(t.storage); }
  float* data() const { return reinterpret_cast<float*>(t.storage); }
};

struct Return {
  CupelReturn ret;
  void* context;
  void operator()(const CupelTensor& tensor) const {
    CupelValue value{};
    value.kind = CUPEL_TENSOR;
    value.tensor = &tensor;
    ret(context, &value);
  }
};

using Function = std::function<void(const Args&, const Return&)>;

cudaError_t FindDriverFunction(const char* name, void** function) {
  cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
  return cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &status);
#else
  return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &status);
#endif
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// A map of an n x 4 tensor of floats with boxes of 8 x 4, or `box` x 4.
CUresult Encode(EncodeTiled encode, CUtensorMap* map, void* data, int n, int box = 8) {
  const cuuint64_t dims[] = {4, static_cast<cuuint64_t>(n)};
  const cuuint64_t strides[] = {16};
  const cuuint32_t boxes[] = {4, static_cast<cuuint32_t>(box)}, steps[] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, dims, strides, boxes, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

void LaunchByMap(EncodeTiled encode, const Args& args, const Return& ret) {
  const int n = args.numel(0);
  Tensor out(n);
  CUtensorMap map;
  Maps maps{n, {}, out.data()};
  if (Encode(encode, &map, args.data(0), n / 4) != CUDA_SUCCESS ||
      Encode(encode, &maps.map, out.data() + 4, n / 4 - 1) != CUDA_SUCCESS) {
    throw std::runtime_error("cannot encode");
  }
  ByMap<<<1, 32>>>(map, maps);
  ret(out.t);
}

cudaError_t LaunchCluster(void (*kernel)(float*), float* out, unsigned blocks, unsigned cluster,
                          cudaLaunchAttributeID other = cudaLaunchAttributeIgnore) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(32);
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = other;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, out);
}

void Cluster(const Args& args, const Return& ret, unsigned cluster) {
  Tensor out(args.numel(0));
  LaunchCluster(Unclustered, out.data(), 96, cluster);
  ret(out.t);
}

void ScaleInto(const float* in, float* out, int n, float factor, cudaStream_t stream = nullptr) {
  Scale<<<(n + 255) / 256, 256, 0, stream>>>(in, out, n, factor);
}

/// Launches half of the work if that bit of an address is set.
void ByAddress(const void* address, int bit, const Args& args, const Return& ret) {
  Tensor out(args.numel(0));
  const bool odd = (reinterpret_cast<uint64_t>(address) >> bit & 1) != 0;
  Scale<<<odd ? 1 : 2, 256>>>(args.data(0), out.data(), args.numel(0), 2);
  ret(out.t);
}

void OnCurrentStream(const Args& args, const Return& ret) {
  Tensor out(args.numel(0));
  auto stream = reinterpret_cast<cudaStream_t>(cupel_rt_current_stream());
  ScaleInto(args.data(0), out.data(), args.numel(0), 2, stream);
  ret(out.t);
}

/// The honest function (scales and returns), after calling `before`.
Function Honest(std::function<void(const Args&)> before) {
  return [before](const Args& args, const Return& ret) {
    before(args);
    Tensor out(args.numel(0));
    ScaleInto(args.data(0), out.data(), args.numel(0), 2);
    ret(out.t);
  };
}

void Fork(const Args& args, const Return& ret, bool wait_before, bool wait_after) {
  static cudaStream_t side = nullptr;
  static cudaEvent_t event = nullptr;
  if (side == nullptr) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  const int n = args.numel(0);
  Tensor out(2 * n);
  if (wait_before) {
    cudaEventRecord(event, nullptr);
    cudaStreamWaitEvent(side, event, 0);
  }
  ScaleInto(args.data(0), out.data(), n, 2, side);
  ScaleInto(args.data(0), out.data() + n, n, 3);
  if (wait_after) {
    cudaEventRecord(event, side);
    cudaStreamWaitEvent(nullptr, event, 0);
  }
  ret(out.t);
}

void Graph(const Args& args, const Return& ret) {
  const int n = args.numel(0);
  Tensor out(n);
  Tensor middle(n);
  cudaStream_t stream;
  cudaStream_t side;
  cudaEvent_t fork;
  cudaEvent_t join;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&side);
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  ScaleInto(args.data(0), middle.data(), n, 2, stream);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(side, fork, 0);
  cudaMemsetAsync(out.data(), 0, 16, side);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(stream, join, 0);
  ScaleInto(middle.data(), out.data(), n, 3, stream);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream);
  cudaStreamSynchronize(stream);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(side);
  ret(out.t);
}

void Everything(const Args& args, const Return& ret) {
  const int n = args.numel(0);
  Tensor out(n);
  const float host[2] = {1.5F, 2.5F};
  cudaMemcpyToSymbolAsync(coefficients, host, sizeof host, 8, cudaMemcpyHostToDevice, nullptr);
  cudaMemsetAsync(out.data(), 0xff, 64, nullptr);
  cudaMemcpyAsync(out.data() + 4, args.data(0), 32, cudaMemcpyDeviceToDevice, nullptr);
  ScaleInto(args.data(0) + 8, out.data(), n - 8, 2);
  ret(out.t);
}

void Workspace(const Args& args, const Return& ret) {
  static float* workspace = nullptr;
  if (workspace == nullptr) cudaMalloc(&workspace, 4096);
  float* scratch = nullptr;
  cudaMalloc(&scratch, 128);
  Tensor out(args.numel(0));
  ScaleInto(args.data(0), workspace, 32, 2);
  ScaleInto(workspace, scratch, 32, 2);
  ScaleInto(scratch, out.data(), 32, 2);
  cudaFree(scratch);
  ret(out.t);
}

void Pointers(const Args& args, const Return& ret) {
  const int n = args.numel(0);
  Tensor out(n);
  Padded padded;
  memset(&padded, static_cast<int>(clock()) & 0xff, sizeof padded);  // garbage in the padding
  padded.count = n;
  padded.out = out.data() + 4;
  padded.in = args.data(0) + n;  // one past the end
  ByStruct<<<1, 32>>>(padded);
  float** table = nullptr;
  cudaMalloc(&table, 16);
  float* host[2] = {out.data(), args.data(0) + 1};
  cudaMemcpyAsync(table, host, sizeof host, cudaMemcpyHostToDevice, nullptr);
  Table<<<2, 32>>>(table, n);
  cudaFree(table);
  ret(out.t);
}

void Gemm(const Args& args, const Return& ret) {
  static cublasHandle_t handle = nullptr;
  if (handle == nullptr) cublasCreate(&handle);
  const float alpha = 0.5F;
  const float beta = 0;
  Tensor out(6);
  cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);
  cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 3, 4, &alpha, args.data(0), 4, args.data(0), 4,
              &beta, out.data(), 2);
  cublasSgemv(handle, CUBLAS_OP_N, 2, 4, &alpha, args.data(0), 2, args.data(0), 2, &beta,
              out.data(), 1);
  ret(out.t);
}

void TooMuchShared(const Args& args, const Return& ret, bool raise, bool look) {
  Tensor out(args.numel(0));
  if (raise) {
    cudaFuncSetAttribute(BigShared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
  }
  BigShared<<<1, 32, 100000>>>(out.data());
  if (look && cudaGetLastError() != cudaSuccess) BigShared<<<1, 32, 1024>>>(out.data());
  ret(out.t);
}

int calls = 0;
int volatile zero = 0;

/// Sends the answer to a request in place of the recorder, and ends the process.
void Forge(const std::string& json) {
  const auto bytes = static_cast<uint32_t>(json.size());
  std::string frame(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  frame += json;
  zero = zero + static_cast<int>(write(3, frame.data(), frame.size()));
  _exit(0);
}
/// An answer whose plan has a kernel and a variable of these images. The candidate has image 0.
Function ForgePlan(const std::string& kernel_image, const std::string& variable_image) {
  return [=](const Args&, const Return&) {
    Forge(R"({"host_us":1,"recordings":1,"plan":{"schema":"cupel.plan/1","function":"forward",)"
          R"("device":"","outputs":[],"returns_tuple":false,"buffers":[{"kind":"symbol",)"
          R"("bytes":64,"symbol":"coefficients","image":)" +
          variable_image +
          R"(}],"nodes":[{"kind":"launch","kernel":"_Z5ScalePKfPfif","grid":[1,1,1],)"
          R"("block":[1,1,1],"cluster":[1,1,1],"dynamic_shared":0,"cooperative":false,)"
          R"("parameters":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","relocations":[],"after":[],)"
          R"("image":)" +
          kernel_image + "}]}}");
  };
}

std::map<std::string, Function> Functions() {
  std::map<std::string, Function> f;
  f["forward"] = Honest([](const Args&) {});
  f["everything"] = Everything;
  f["constants_once"] = [](const Args& a, const Return& r) {
    static const bool once = [] {
      const float host[2] = {1, 2};
      cudaMemcpyToSymbol(coefficients, host, sizeof host);
      int zeros = 0;
      cudaMemcpyToSymbol(launches, &zeros, sizeof zeros);
      return true;
    }();
    Tensor out(once ? a.numel(0) : 0);
    ScaleInto(a.data(0), out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["table_once"] = [](const Args& a, const Return& r) {
    static float** const pointer = [] {
      float host[4] = {1, 2, 3, 4}, *table = nullptr, **at = nullptr;
      cudaMalloc(&table, 64);
      cudaMemset(table, 0, 64);
      cudaMemcpy(table, host, sizeof host, cudaMemcpyHostToDevice);
      cudaMalloc(&at, sizeof table);
      cudaMemcpy(at, &table, sizeof table, cudaMemcpyHostToDevice);
      return at;
    }();
    Tensor out(a.numel(0));
    ScaleInto(reinterpret_cast<float*>(pointer), out.data(), 2, 2);
    r(out.t);
  };
  f["table_copied"] = [](const Args& a, const Return& r) {
    static void* table = nullptr;
    if (table == nullptr) {
      cudaMalloc(&table, 16);
      cudaMemset(table, 0, 16);
      cudaMemcpy(table, a.data(0), 16, cudaMemcpyDeviceToDevice);
    }
    Tensor out(a.numel(0));
    ScaleInto(static_cast<float*>(table), out.data(), 4, 2);
    r(out.t);
  };
  f["symbol_from_device"] = [](const Args& a, const Return& r) {
    const cudaError_t to_symbol = cudaMemcpyToSymbol(coefficients, a.data(0), 8);
    Tensor out(a.numel(0));
    const cudaError_t down = cudaMemcpy(out.data(), a.data(0), 16, cudaMemcpyDeviceToHost);
    float host = 0;
    const bool agrees = to_symbol == cudaSuccess && down == cudaSuccess &&
                        cudaMemcpy(&host, &host, 4, cudaMemcpyHostToDevice) != cudaSuccess;
    if (!agrees) cupel_rt_refuse("internal", "copies have the wrong result");
    ScaleInto(a.data(0), out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["says_internal"] = [](const Args&, const Return&) {
    cupel_rt_refuse("internal", "cupel is to blame");
  };
  f["workspace"] = Workspace;
  f["pointers"] = Pointers;
  f["gemm"] = Gemm;
  f["graph"] = Graph;
  f["fork_join"] = [](const Args& a, const Return& r) { Fork(a, r, true, true); };
  f["on_current_stream"] = OnCurrentStream;
  f["fork_only"] = [](const Args& a, const Return& r) { Fork(a, r, true, false); };
  f["join_only"] = [](const Args& a, const Return& r) { Fork(a, r, false, true); };
  f["dereference"] = Honest([](const Args& a) { zero = zero + static_cast<int>(a.data(0)[4]); });
  f["copy_back"] = Honest([](const Args& a) {
    float x = 0;
    cudaMemcpy(&x, a.data(0), 4, cudaMemcpyDeviceToHost);
  });
  f["null_pointer"] = Honest([](const Args&) { *reinterpret_cast<int volatile*>(zero) = 1; });
  f["overflow"] = [](const Args& a, const Return& r) {
    std::function<int(int)> deeper = [&](int n) {
      char volatile frame[4096];
      frame[0] = static_cast<char>(n);
      return deeper(n + 1) + frame[0];
    };
    zero = zero + deeper(0);
    r(a.tensor(0));
  };
  f["divide"] = Honest([](const Args& a) { zero = a.numel(0) / zero; });
  f["abort"] = Honest([](const Args&) { abort(); });
  f["exit"] = Honest([](const Args&) { exit(3); });
  f["loop"] = Honest([](const Args&) {
    while (zero == 0) {
    }
  });
  f["loop_without_home"] = Honest([](const Args&) {
    if (getenv("HOME") != nullptr) return;
    for (int fd = 3; fd < 64; ++fd) close(fd);
    while (zero == 0) {
    }
  });
  f["throw"] = Honest([](const Args&) { throw std::runtime_error("x must be square"); });
  f["fork"] = Honest([](const Args&) { zero = zero + static_cast<int>(fork()); });
  f["socket"] = Honest([](const Args&) { zero = zero + socket(AF_INET, SOCK_STREAM, 0); });
  f["write_file"] = Honest([](const Args&) { zero = zero + (fopen("/tmp/x", "w") != nullptr); });
  f["read_file"] =
      Honest([](const Args&) { zero = zero + (fopen("/usr/lib/os-release", "r") != nullptr); });
  f["sleep"] = Honest([](const Args&) {
    const timespec pause{0, 1000000};
    nanosleep(&pause, nullptr);
  });
  f["print"] = Honest([](const Args&) { printf("hello\n"); });
  f["elapsed"] = Honest([](const Args&) {
    float ms = 0;
    cudaEventElapsedTime(&ms, nullptr, nullptr);
  });
  f["counter"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    ScaleInto(a.data(0), out.data(), ++calls < 40 ? a.numel(0) : 1, 2);
    r(out.t);
  };
  f["cache_by_pointer"] = [](const Args& a, const Return& r) {
    static std::map<const float*, Tensor*> cache;
    Tensor*& out = cache[a.data(0)];
    if (out == nullptr) {
      out = new Tensor(a.numel(0));
      ScaleInto(a.data(0), out->data(), a.numel(0), 2);
    }
    r(out->t);
  };
  f["by_address"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    const bool odd = (reinterpret_cast<uint64_t>(a.data(0)) >> 12 & 1) != 0;
    Scale<<<odd ? 1 : 2, 256>>>(a.data(0), out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["stale_pointer"] = [](const Args& a, const Return& r) {
    static const float* first = a.data(0);
    Tensor out(a.numel(0));
    ScaleInto(first, out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["freed"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    const float* gone = Tensor(a.numel(0)).data();
    ScaleInto(gone, out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["by_earlier_shape"] = [](const Args& a, const Return& r) {
    static int largest = 0;
    largest = a.numel(0) > largest ? a.numel(0) : largest;
    Tensor out(a.numel(0));
    ScaleInto(a.data(0), out.data(), largest, 2);
    r(out.t);
  };
  f["empty_grid"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    Scale<<<0, 256>>>(a.data(0), out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["big_block"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    Scale<<<1, dim3(64, 32)>>>(a.data(0), out.data(), a.numel(0), 2);
    r(out.t);
  };
  f["shared_ignored"] = [](const Args& a, const Return& r) { TooMuchShared(a, r, false, false); };
  f["shared_looked"] = [](const Args& a, const Return& r) { TooMuchShared(a, r, false, true); };
  f["shared_raised"] = [](const Args& a, const Return& r) { TooMuchShared(a, r, true, false); };
  // The limit of the first size that a process sees.
  f["shared_raised_once"] = [](const Args& a, const Return& r) {
    static const int limit = 4 * a.numel(0);
    cudaFuncSetAttribute(BigShared, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
    Tensor out(a.numel(0));
    BigShared<<<1, 32, 4 * a.numel(0)>>>(out.data());
    r(out.t);
  };
  f["item"] = [](const Args& a, const Return& r) {
    float factor = 0;
    cupel_rt_item(&a.tensor(1), &factor);
    Tensor out(a.numel(0));
    ScaleInto(a.data(0), out.data(), a.numel(0), factor);
    r(out.t);
  };
  f["sum_of_integers"] = [](const Args& a, const Return& r) {
    float sum = 0;
    CupelTensor element = a.tensor(1);
    for (int64_t i = 0; i < a.numel(1); ++i, ++element.offset) {
      int32_t value = 0;
      cupel_rt_item(&element, &value);
      sum += static_cast<float>(value);
    }
    Tensor out(a.numel(0));
    ScaleInto(a.data(0), out.data(), a.numel(0), sum);
    r(out.t);
  };
  f["returns_int"] = [](const Args&, const Return& r) {
    CupelValue value{};
    value.kind = CUPEL_INT;
    r.ret(r.context, &value);
  };
  f["returns_nothing"] = [](const Args&, const Return&) {};
  f["too_long"] = [](const Args& a, const Return& r) {
    CupelTensor t = a.tensor(0);
    t.sizes[0] = 1 << 20;
    r(t);
  };
  f["forge"] = [](const Args&, const Return&) { Forge(R"({"plan":[1,2,3]})"); };
  f["forge_plan"] = ForgePlan("0", "0");
  f["forge_kernel"] = ForgePlan("1", "0");
  f["forge_variable"] = ForgePlan("0", "1");
  f["map_by_runtime"] = [](const Args& a, const Return& r) {
    void* encode = nullptr;
    if (FindDriverFunction("cuTensorMapEncodeTiled", &encode) != cudaSuccess) {
      throw std::runtime_error("no entry point");
    }
    LaunchByMap(reinterpret_cast<EncodeTiled>(encode), a, r);
  };
  f["map_by_name"] = [](const Args& a, const Return& r) {
    LaunchByMap(&cuTensorMapEncodeTiled, a, r);
  };
  f["map_in_memory"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    CUtensorMap map;
    Encode(&cuTensorMapEncodeTiled, &map, a.data(0), a.numel(0) / 4);
    cudaMemcpyToSymbolAsync(kept_map, &map, sizeof map, 0, cudaMemcpyHostToDevice, nullptr);
    ByKeptMap<<<1, 32>>>(out.data());
    r(out.t);
  };
  f["map_too_large"] = [](const Args& a, const Return&) {
    CUtensorMap map;
    const CUresult error = Encode(&cuTensorMapEncodeTiled, &map, a.data(0), a.numel(0) / 4, 257);
    const char* name = nullptr;
    cuGetErrorName(error, &name);
    throw std::runtime_error(std::string("my check: ") + name);
  };
  f["map_unaligned"] = Honest([](const Args& a) {
    CUtensorMap map;
    if (Encode(&cuTensorMapEncodeTiled, &map, a.data(0) + 1, 4) != CUDA_ERROR_INVALID_VALUE ||
        Encode(&cuTensorMapEncodeTiled, &map, a.data(0), 0) != CUDA_ERROR_INVALID_VALUE ||
        Encode(&cuTensorMapEncodeTiled, nullptr, a.data(0), 4) != CUDA_ERROR_INVALID_VALUE) {
      throw std::runtime_error("encoded");
    }
    alignas(128) char bytes[2 * sizeof map];
    auto* place = reinterpret_cast<CUtensorMap*>(bytes + 32);
    if (Encode(&cuTensorMapEncodeTiled, place, a.data(0), 4) != CUDA_SUCCESS) {
      throw std::runtime_error("not encoded");
    }
  });
  f["map_depends_on_address"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    CUtensorMap map;
    const bool odd = (a.tensor(0).storage >> 12 & 1) != 0;
    Encode(&cuTensorMapEncodeTiled, &map, a.data(0), odd ? 4 : 8);
    ByMap<<<1, 32>>>(map, Maps{0, map, out.data()});
    r(out.t);
  };
  f["unknown_driver_function"] = Honest([](const Args&) {
    void* function = nullptr;
    FindDriverFunction("cuMemCreate", &function);
  });
  f["cluster_of_four"] = [](const Args& a, const Return& r) { Cluster(a, r, 4); };
  f["operators"] = [](const Args& a, const Return& r) {
    // relu of the argument, which PyTorch computes; then its first half, which is a view.
    CupelValue arguments[2] = {};
    arguments[0].kind = CUPEL_TENSOR, arguments[0].tensor = &a.tensor(0);
    const auto call = [&](const char* name, CupelTensor* result, int count) {
      struct Context {
        CupelTensor* result;
        uint64_t storage;
      } context{result, arguments[0].tensor->storage};
      cupel_rt_operator(
          name, arguments, count,
          [](void* at, const CupelTensor* shape, int32_t shares) -> const CupelTensor* {
            auto& made = *static_cast<Context*>(at);
            *made.result = *shape;
            made.result->storage = shares < 0 ? cupel_rt_alloc(shape->storage_bytes) : made.storage;
            return made.result;
          },
          &context);
    };
    CupelTensor relu = {}, half = {};
    call("aten::relu", &relu, 1);
    arguments[0].tensor = &relu;
    arguments[1].kind = CUPEL_INT, arguments[1].i = 150;
    call("test::first", &half, 2);
    r(half);
    cupel_rt_free(relu.storage);
  };
  f["cluster_of_one"] = [](const Args& a, const Return& r) { Cluster(a, r, 1); };
  f["cluster_of_sixteen"] = [](const Args& a, const Return& r) { Cluster(a, r, 16); };
  f["cluster_of_sixteen_allowed"] = [](const Args& a, const Return& r) {
    cudaFuncSetAttribute(Unclustered, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    Cluster(a, r, 16);
    cudaFuncSetAttribute(Unclustered, cudaFuncAttributeNonPortableClusterSizeAllowed, 0);
  };
  f["cluster_of_kernel"] = [](const Args& a, const Return& r) {
    Tensor out(a.numel(0));
    Clustered<<<96, 32>>>(out.data());
    if (LaunchCluster(Clustered, out.data(), 96, 4) != cudaErrorInvalidClusterSize) {
      throw std::runtime_error("launched");
    }
    cudaGetLastError();
    r(out.t);
  };
  f["cluster_event"] = [](const Args& a, const Return&) {
    Tensor out(a.numel(0));
    LaunchCluster(Unclustered, out.data(), 96, 4, cudaLaunchAttributeProgrammaticEvent);
  };
  f["cluster_occupancy"] = [](const Args& a, const Return& r) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(132);
    config.blockDim = dim3(1024);
    config.dynamicSmemBytes = 200000;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 4;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0, largest = 0;
    cudaOccupancyMaxActiveClusters(&clusters, Unclustered, &config);
    cudaOccupancyMaxPotentialClusterSize(&largest, Unclustered, &config);
    Tensor out(a.numel(0));
    ScaleInto(a.data(0), out.data(), clusters, static_cast<float>(largest));
    r(out.t);
  };
  f["slow"] = Honest([](const Args&) {
    const auto now_us = [] {  // the C library's clocks are refused
      timespec now{};
      syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
      return now.tv_sec * 1000000L + now.tv_nsec / 1000;
    };
    const auto begin = now_us();
    while (now_us() - begin < 30000) {
    }
  });
  f["counter_of_cycles"] = Honest([](const Args&) {
    uint32_t low = 0, high = 0;
    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    zero = zero + static_cast<int>((low ^ high) & 0);
  });
  f["time_of_day"] = Honest([](const Args&) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    zero = zero + static_cast<int>(now.tv_nsec & 0);
  });
  f["by_stack"] = [](const Args& a, const Return& r) {
    char volatile here = 0;
    ByAddress(const_cast<char*>(&here), 4, a, r);
  };
  f["by_heap"] = [](const Args& a, const Return& r) {
    const auto block = std::make_unique<char[]>(200);
    ByAddress(block.get(), 4, a, r);
  };
  f["by_code"] = [](const Args& a, const Return& r) {
    ByAddress(reinterpret_cast<const void*>(&cupel_candidate_abi), 12, a, r);
  };
  return f;
}

}  // namespace

extern "C" {

int cupel_candidate_abi(void) { return CUPEL_ABI_VERSION; }

void cupel_candidate_describe(CupelDescribe describe, void* context) {
  describe(context, "forward", "forward(x: Tensor)");
}

int cupel_candidate_call(const char* function, const CupelValue* args, int32_t count,
                         CupelReturn ret, void* context, char* message, int32_t message_size) {
  static const std::map<std::string, Function> functions = Functions();
  const auto it = functions.find(function);
  if (it == functions.end()) return CUPEL_NO_FUNCTION;
  if (count < 1 || args[0].kind != CUPEL_TENSOR) {
    snprintf(message, static_cast<size_t>(message_size), "argument 0 must be a tensor");
    return CUPEL_BAD_ARGUMENTS;
  }
  try {
    it->second(Args{args, count}, Return{ret, context});
  } catch (const std::exception& e) {
    snprintf(message, static_cast<size_t>(message_size), "%s", e.what());
    return CUPEL_EXCEPTION;
  }
  return CUPEL_OK;
}

}  // extern "C"
