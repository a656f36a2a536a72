// Tested by program_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gpu/block.h"
#include "gpu/faults.h"
#include "gpu/memory.h"
#include "gpu/outputs.h"
#include "gpu/replay.h"
#include "os/fd.h"

namespace cupel::gpu {
namespace {

using engine::Finding;
using engine::Run;

constexpr size_t kMostCubinBytes = 256u << 20;

class LoadedProgram : public GpuProgram {
 public:
  LoadedProgram(const Device& device, Module module, ModuleVariables variables,
                ReplayOptions options)
      : device_(device),
        module_(std::move(module)),
        variables_(std::move(variables)),
        options_(std::move(options)) {}

  const Module& module() const override { return module_; }
  const ModuleVariables& variables() const override { return variables_; }

  Result<Run> Execute(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
                      const engine::RunOptions& options) override {
    if (lost_) {
      return Fail(ErrorCode::kInternal, "the GPU's context was lost by an earlier fault");
    }
    const auto start = std::chrono::steady_clock::now();
    Run run;
    const uint64_t bytes = PlanMemory::BytesFor(plan);
    if (!memory_ || memory_->bytes() < bytes) {
      memory_.reset();
      TRY_ASSIGN(Block block, Block::Allocate(device_, bytes));
      memory_.emplace(std::move(block));
    }
    PlanMemory buffers(device_);
    TRY(buffers.Bind(plan, arguments, module_.get(), options.poison, memory_->address()));
    TRY(variables_.Restore());
    Replay replay(device_, module_, buffers);
    TRY_ASSIGN(Refusal refusal, replay.Enqueue(plan));
    if (options.full_checks && refusal.ok()) {
      // A call that leaves its variables so that the next one goes wrong is wrong, too.
      TRY(buffers.Poison(options.poison));
      TRY_ASSIGN(refusal, replay.Enqueue(plan));
    }
    const bool refused = !refusal.ok();
    refusal.MoveTo(&run);
    TRY_ASSIGN(std::optional<Finding> fault, AwaitKernels(device_, options_.deadline));
    lost_ = fault.has_value();
    if (fault) run.findings.push_back(std::move(*fault));
    if (!refused && !lost_) TRY(Look(plan, arguments, buffers, &run));
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return run;
  }

 private:
  /// What a run that came to its end left behind.
  Status Look(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
              const PlanMemory& buffers, Run* run) {
    TRY(FindStrayWrites(buffers, &run->findings));
    TRY(FindChangedArguments(device_, buffers, plan, arguments, &run->findings));
    TRY_ASSIGN(run->outputs, ReadOutputs(device_, buffers, plan, &run->findings));
    run->completed = std::none_of(run->findings.begin(), run->findings.end(),
                                  [](const Finding& f) { return f.code == "out_of_bounds"; });
    if (!run->completed) run->outputs.clear();
    return {};
  }

  const Device& device_;
  Module module_;
  ModuleVariables variables_;
  ReplayOptions options_;
  std::optional<Block> memory_;  // kept from run to run
  bool lost_ = false;
};

}  // namespace

Result<std::unique_ptr<GpuProgram>> LoadProgram(const Device& device, const build::Image& image,
                                                ReplayOptions options) {
  std::string code = image.ptx;
  if (!image.cubin.empty()) {
    TRY_ASSIGN(code, os::ReadFile(image.cubin, kMostCubinBytes));
  }
  TRY_ASSIGN(Module module, Module::Load(device, code, "the kernel"));
  TRY_ASSIGN(ModuleVariables variables, ModuleVariables::Save(device, module, options.variables));
  return std::unique_ptr<GpuProgram>(std::make_unique<LoadedProgram>(
      device, std::move(module), std::move(variables), std::move(options)));
}

}  // namespace cupel::gpu
