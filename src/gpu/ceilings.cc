// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/ceilings.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gpu/blas.h"
#include "gpu/faults.h"
#include "gpu/own_kernels.h"
#include "stats/robust.h"

namespace cupel::gpu {
namespace {

constexpr std::chrono::milliseconds kCeilingDeadline{10'000};
constexpr int kSamples = 15;
constexpr uint64_t kMostCopied = uint64_t{1} << 30;
constexpr int64_t kMatrix = 8192, kDoubleMatrix = 4096;
constexpr int kEmptyLaunches = 64;

class Measurement {
 public:
  Measurement(const Device& device, Clock& clock) : device_(device), clock_(clock) {}

  Status Start() {
    TRY_ASSIGN(overhead_us_, clock_.Overhead());
    return {};
  }

  /// Median microseconds of the work that `enqueue` adds to a graph, without the clock's overhead.
  Result<double> Time(const std::function<Status()>& enqueue) {
    TRY(enqueue());
    TRY_ASSIGN(const TimedGraph graph, TimedGraph::Capture(device_, nullptr, enqueue));
    std::vector<double> times;
    for (int i = 0; i < kSamples; ++i) {
      TRY(graph.Launch());
      TRY_ASSIGN(const auto fault, AwaitKernels(device_, kCeilingDeadline));
      if (fault) return Fail(ErrorCode::kEnvironment, "measuring the GPU: " + fault->message);
      TRY_ASSIGN(const double us, graph.Microseconds());
      if (i >= 2) times.push_back(us - overhead_us_);
    }
    return std::max(0.01, stats::Median(times));
  }

  Status Memory(records::Ceilings* ceilings, const Block& a, const Block& b) {
    uint64_t bytes = a.bytes();
    CuPointer from = a.address(), to = b.address();
    TRY_ASSIGN(Block sum, Block::Allocate(device_, sizeof(uint64_t)));
    CuPointer result = sum.address();
    void* read[] = {&from, &bytes, &result};
    void* copy[] = {&from, &bytes, &to};
    const CuFunction reader = clock_.Own(kReadKernel), copier = clock_.Own(kStreamKernel);
    TRY_ASSIGN(const double read_us,
               Time([&] { return clock_.Launch(reader, clock_.FullGrid(), read); }));
    TRY_ASSIGN(const double copy_us,
               Time([&] { return clock_.Launch(copier, clock_.FullGrid(), copy); }));
    ceilings->read_bytes = static_cast<double>(bytes) / (read_us * 1e-6);
    ceilings->copy_bytes = 2 * static_cast<double>(bytes) / (copy_us * 1e-6);
    return {};
  }

  Status Fma(records::Ceilings* ceilings, const Block& out) {
    uint32_t iterations = 2000;
    CuPointer to = out.address();
    void* parameters[] = {&to, &iterations};
    const CuFunction function = clock_.Own(kFmaKernel);
    TRY_ASSIGN(const double us,
               Time([&] { return clock_.Launch(function, clock_.FullGrid(), parameters); }));
    constexpr double kFlopsAnIteration = 2.0 * kFmaChains * kFmaUnrolled;
    ceilings->fp32_flops =
        kFlopsAnIteration * iterations * clock_.FullGrid() * kOwnBlock / (us * 1e-6);
    return {};
  }

  Status Launches(records::Ceilings* ceilings) {
    TRY_ASSIGN(const double one, Time([&] { return clock_.Empty(); }));
    TRY_ASSIGN(const double many, Time([&]() -> Status {
                 for (int i = 0; i <= kEmptyLaunches; ++i) TRY(clock_.Empty());
                 return {};
               }));
    ceilings->launch_us = (many - one) / kEmptyLaunches;
    return {};
  }

  /// Random operands: zeros take less power and run faster.
  Status Fill(const Block& block) {
    constexpr uint64_t kPiece = 1 << 20;
    const uint64_t piece = std::min(kPiece, block.bytes());
    std::vector<uint16_t> values(piece / 2);
    Random random(7);
    // bfloat16 with magnitudes between 0.5 and 2. Two of them form a float32 in that range.
    for (uint16_t& value : values) {
      const uint64_t bits = random();
      value = static_cast<uint16_t>(0x3f00 + (bits & 0xff) + ((bits >> 8 & 1) << 15));
    }
    const Driver& driver = device_.driver();
    TRY(driver.Check(driver.copy_in_now(block.address(), values.data(), piece), "copying in"));
    for (uint64_t done = piece; done < block.bytes();) {
      const uint64_t more = std::min(done, block.bytes() - done);
      TRY(driver.Check(
          driver.copy_across(block.address() + done, block.address(), more, device_.stream()),
          "copying on the GPU"));
      done += more;
    }
    return {};
  }

  Status Products(records::Ceilings* ceilings, const Block& a, const Block& b) {
    auto blas = device_.blas();
    if (!blas) return {};  // without cuBLAS these ceilings are not measured
    const auto bytes = static_cast<uint64_t>(kMatrix * kMatrix) * 4;
    if (a.bytes() < 2 * bytes || b.bytes() < bytes) return {};
    TRY(Fill(a));
    const GemmAddresses at{a.address(), a.address() + bytes, b.address()};
    struct Kind {
      const char* compute;
      DType dtype;
      int64_t size;
      double records::Ceilings::* rate;
    };
    for (const Kind& kind :
         {Kind{"f32_tf32", DType::kF32, kMatrix, &records::Ceilings::tf32_flops},
          Kind{"f32", DType::kBF16, kMatrix, &records::Ceilings::bf16_flops},
          Kind{"f64", DType::kF64, kDoubleMatrix, &records::Ceilings::fp64_flops}}) {
      plan::Gemm gemm;
      gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = kind.size;
      gemm.compute = kind.compute;
      gemm.a_type = gemm.b_type = gemm.c_type = kind.dtype;
      TRY_ASSIGN(const double us, Time([&] { return (*blas)->Enqueue(gemm, at); }));
      const auto size = static_cast<double>(kind.size);
      ceilings->*kind.rate = 2 * size * size * size / (us * 1e-6);
    }
    return {};
  }

 private:
  const Device& device_;
  Clock& clock_;
  double overhead_us_ = 0;
};

}  // namespace

Result<records::Ceilings> MeasureCeilings(const Device& device, Clock& clock) {
  size_t free = 0, total = 0;
  const Driver& driver = device.driver();
  TRY(driver.Check(driver.memory_info(&free, &total), "reading the free memory"));
  const uint64_t piece = uint64_t{clock.FullGrid()} * kOwnBlock * kStreamPiece;
  const uint64_t bytes = std::min<uint64_t>(kMostCopied, free / 4) / piece * piece;
  TRY_ASSIGN(const Block a, Block::Allocate(device, bytes));
  TRY_ASSIGN(const Block b, Block::Allocate(device, bytes));
  records::Ceilings ceilings;
  ceilings.gpu = device.name();
  Measurement measurement(device, clock);
  TRY(measurement.Start());
  TRY(measurement.Fill(a));
  TRY(measurement.Memory(&ceilings, a, b));
  TRY(measurement.Fma(&ceilings, b));
  TRY(measurement.Launches(&ceilings));
  TRY(measurement.Products(&ceilings, a, b));
  return ceilings;
}

}  // namespace cupel::gpu
