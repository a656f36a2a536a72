// Tested by program_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "gpu/block.h"
#include "gpu/faults.h"
#include "gpu/memory.h"
#include "gpu/outputs.h"
#include "gpu/replay.h"
#include "gpu/surroundings.h"
#include "os/files.h"

namespace cupel::gpu {
namespace {

using engine::Run;
using records::Finding;

constexpr size_t kMostCubinBytes = 256u << 20;
constexpr uint64_t kMostKept = 512u << 20;  // device memory kept between runs; others may need it

class LoadedProgram : public GpuProgram {
 public:
  /// `with_surroundings`: the indices of the modules that have kSurroundingsVariable.
  LoadedProgram(const Device& device, std::vector<Module> modules, ModuleVariables variables,
                ReplayOptions options, std::vector<size_t> with_surroundings)
      : device_(device),
        modules_(std::move(modules)),
        variables_(std::move(variables)),
        options_(std::move(options)),
        with_surroundings_(std::move(with_surroundings)) {}

  std::span<const Module> modules() const override { return modules_; }
  const ModuleVariables& variables() const override { return variables_; }

  void KeepState() override { kept_ = true; }
  void ForgetState() override {
    kept_ = false;
    kept_memory_.clear();
  }
  void ScrambleState(uint64_t seed) override { scramble_ = seed; }

  Result<Run> Execute(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
                      const engine::RunOptions& options) override {
    auto run = Replayed(plan, arguments, options);
    if (!lost_ && memory_ && memory_->capacity() > kMostKept) memory_.reset();
    return run;
  }

 private:
  Result<Run> Replayed(const plan::Plan& plan,
                       std::span<const std::span<const std::byte>> arguments,
                       const engine::RunOptions& options) {
    if (lost_) {
      return Fail(ErrorCode::kInternal, "the GPU's context was lost by an earlier fault");
    }
    const auto start = std::chrono::steady_clock::now();
    Run run;
    PlanMemory buffers(device_,
                       options_.vary_surroundings ? std::optional(options.seed) : std::nullopt);
    const uint64_t bytes = buffers.BytesFor(plan);
    if (!memory_ || memory_->bytes() < bytes) {
      memory_.reset();
      TRY_ASSIGN(Block block, Block::Allocate(device_, bytes));
      memory_.emplace(std::move(block));
    }
    TRY(buffers.Bind(plan, arguments, modules_, options.poison, memory_->address()));
    TRY(SetState(plan, buffers));
    TRY(SetSurroundings(options.seed));
    Replay replay(device_, modules_, buffers);
    TRY_ASSIGN(Refusal refusal, replay.Enqueue(plan));
    if (options.full_checks && refusal.ok()) {
      // Run it twice: a call that leaves wrong state for the next one is wrong, too.
      TRY(buffers.Poison(options.poison));
      TRY(buffers.RestoreArguments(plan, arguments));
      TRY_ASSIGN(refusal, replay.Enqueue(plan));
    }
    const bool refused = !refusal.ok();
    refusal.MoveTo(&run);
    TRY_ASSIGN(std::optional<Finding> fault, AwaitKernels(device_, options_.deadline));
    lost_ = fault.has_value();
    if (fault) run.findings.push_back(std::move(*fault));
    if (!refused && !lost_) {
      TRY(ReadResults(plan, arguments, buffers, &run));
      TRY(NoteState(plan, &run));
      TRY(KeepMemory(plan, buffers));
    }
    run.seconds = SecondsSince(start);
    return run;
  }

  Status SetSurroundings(uint64_t seed) {
    const Driver& driver = device_.driver();
    const Surroundings drawn = DrawSurroundings(seed);
    for (const size_t i : with_surroundings_) {
      CuPointer address = 0;
      size_t bytes = 0;
      TRY(driver.Check(
          driver.module_global(&address, &bytes, modules_[i].get(), kSurroundingsVariable),
          "finding the date"));
      TRY(driver.Check(driver.copy_in_now(address, &drawn, sizeof drawn), "setting the date"));
    }
    return {};
  }

  Status SetState(const plan::Plan& plan, const PlanMemory& buffers) {
    if (!kept_) TRY(variables_.Restore());
    if (scramble_) {
      Random random(*scramble_);
      TRY(variables_.Scramble(random()));
      for (std::vector<std::byte>& bytes : kept_memory_) engine::Scramble(bytes, random);
      scramble_.reset();
    }
    if (!kept_ || kept_memory_.size() != plan.buffers.size()) return {};
    const Driver& driver = device_.driver();
    for (size_t i = 0; i < kept_memory_.size(); ++i) {
      const Place& place = buffers.places()[i];
      if (kept_memory_[i].empty() || kept_memory_[i].size() != place.bytes) continue;
      TRY(driver.Check(
          driver.copy_in(place.address, kept_memory_[i].data(), place.bytes, device_.stream()),
          "restoring the memory of the previous call"));
    }
    return {};
  }

  Status KeepMemory(const plan::Plan& plan, const PlanMemory& buffers) {
    kept_memory_.clear();
    if (!kept_ || !engine::CanKeepMemory(plan)) return {};
    const Driver& driver = device_.driver();
    kept_memory_.resize(plan.buffers.size());
    for (size_t i = 0; i < kept_memory_.size(); ++i) {
      const Place& place = buffers.places()[i];
      if (!engine::OutlivesCalls(plan.buffers[i]) || place.bytes == 0) continue;
      kept_memory_[i].resize(place.bytes);
      TRY(driver.Check(
          driver.copy_out(kept_memory_[i].data(), place.address, place.bytes, device_.stream()),
          "saving the memory of a call"));
    }
    CuResult code = 0;
    TRY(device_.Await(options_.deadline, &code));
    return driver.Check(code, "saving the memory of a call");
  }

  /// Adds findings for changed variables. Ignores variables that host code uses (named in the
  /// plan).
  Status NoteState(const plan::Plan& plan, Run* run) const {
    TRY_ASSIGN(const auto changed, variables_.Changed());
    for (const auto& [image, name] : changed) {
      if (plan::HasVariable(plan, image, name)) continue;
      run->findings.push_back(engine::StateFinding(name));
    }
    return {};
  }

  /// Checks and reads the buffers after a run that ended normally.
  Status ReadResults(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
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
  std::vector<Module> modules_;
  ModuleVariables variables_;
  ReplayOptions options_;
  std::vector<size_t> with_surroundings_;
  std::optional<Block> memory_;  // kept between runs if small enough
  bool lost_ = false;
  bool kept_ = false;  // the next call starts with the state that the last one left
  engine::KeptMemory kept_memory_;
  std::optional<uint64_t> scramble_;
};

}  // namespace

Result<std::unique_ptr<GpuProgram>> LoadProgram(const Device& device, const build::Images& images,
                                                ReplayOptions options) {
  std::vector<Module> modules;
  std::vector<size_t> with_surroundings;
  for (const auto& image : images) {
    const bool changed = options.vary_surroundings && ReadsSurroundings(image->ptx);
    std::string code = changed ? WithOtherSurroundings(image->ptx) : image->ptx;
    if (changed) {
      with_surroundings.push_back(modules.size());
    } else if (!image->cubin.empty()) {
      TRY_ASSIGN(code, os::ReadFile(image->cubin, kMostCubinBytes));
    }
    TRY_ASSIGN(Module module, Module::Load(device, code, "the kernel"));
    modules.push_back(std::move(module));
  }
  TRY_ASSIGN(ModuleVariables variables, ModuleVariables::Save(device, modules, options.variables));
  return std::unique_ptr<GpuProgram>(
      std::make_unique<LoadedProgram>(device, std::move(modules), std::move(variables),
                                      std::move(options), std::move(with_surroundings)));
}

}  // namespace cupel::gpu
