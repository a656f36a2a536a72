// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

namespace cupel::engine {
namespace {

tl::unexpected<Error> NoClock(const Engine& engine) {
  return Fail(ErrorCode::kUnsupported,
              "unsupported: the engine " + engine.Name() + " cannot measure time",
              "use --device gpu on a machine with an NVIDIA GPU");
}

}  // namespace

Result<std::shared_ptr<void>> Engine::Reserve() { return std::shared_ptr<void>(); }

Result<std::shared_ptr<void>> Engine::PutOffMeasurements() { return std::shared_ptr<void>(); }

Result<std::unique_ptr<Timer>> Engine::MakeTimer(
    std::span<const Entrant> /*entrants*/,
    std::span<const std::vector<std::span<const std::byte>>> /*sets*/) {
  return NoClock(*this);
}

Result<records::GpuState> Engine::State() { return NoClock(*this); }

Result<records::Ceilings> Engine::MeasureCeilings() { return NoClock(*this); }

Result<ClockKernels> Engine::Kernels() { return NoClock(*this); }

task::Tensor OutputTensor::View() const {
  task::Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = task::ContiguousStrides(shape);
  tensor.storage = bytes;
  return tensor;
}

}  // namespace cupel::engine
