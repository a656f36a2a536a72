// SPDX-License-Identifier: Apache-2.0
#include "assay/probe_sampler.h"

#include <cstring>
#include <utility>

namespace cupel::assay {

Result<Probe> LoadProbe(engine::Engine& engine) {
  TRY_ASSIGN(const engine::ClockKernels kernels, engine.Kernels());
  build::Image image;
  image.ptx = kernels.probe_ptx;
  Probe probe;
  TRY_ASSIGN(probe.program, engine.Load(build::OneImage(std::move(image))));
  plan::Buffer out;
  out.bytes = uint64_t{8} * kernels.probe_grid * kernels.probe_block;
  probe.plan.buffers = {out};
  plan::Launch launch;
  launch.kernel = kernels.probe_entry;
  launch.grid.x = kernels.probe_grid;
  launch.block.x = kernels.probe_block;
  launch.parameters.assign(sizeof(uint64_t) + sizeof(uint32_t), '\0');
  std::memcpy(launch.parameters.data() + sizeof(uint64_t), &kernels.probe_iterations,
              sizeof(uint32_t));
  launch.relocations = {{0, {0, 0}}};
  probe.plan.nodes.push_back({std::move(launch), {}});
  return probe;
}

Result<std::vector<double>> ProbeSampler::Take(engine::TimingMode mode, int set, int count) {
  TRY_ASSIGN(engine::Taken taken, timer_.Take({entrant_, mode, set, count, {}, false}));
  if (!taken.findings.empty()) {
    Refuse({taken.findings.front().code, taken.findings.front().message, ""});
    return std::vector<double>();
  }
  return std::move(taken.us);
}

}  // namespace cupel::assay
