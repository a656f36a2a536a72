// A kernel of cupel's own, timed on both paths: by the engine's timer and, as a "baseline", by
// PyTorch's process. If both agree, kernels and baselines are timed by one clock.
#pragma once

#include <memory>
#include <string>

#include "assay/sampler.h"
#include "engine/engine.h"

namespace cupel::assay {

inline constexpr const char* kOwnProbe = "probe by cupel";

/// The probe in a form that an engine can load and replay.
struct Probe {
  std::unique_ptr<engine::Program> program;
  plan::Plan plan;
};
Result<Probe> LoadProbe(engine::Engine& engine);

class ProbeSampler : public Sampler {
 public:
  ProbeSampler(engine::Timer& timer, size_t entrant) : timer_(timer), entrant_(entrant) {}
  std::string Name() const override { return kOwnProbe; }
  bool IsBaseline() const override { return false; }
  Result<std::vector<double>> Take(engine::TimingMode mode, int set, int count) override;

 private:
  engine::Timer& timer_;
  size_t entrant_;
};

}  // namespace cupel::assay
