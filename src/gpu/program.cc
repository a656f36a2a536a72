// Tested by program_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "gpu/memory.h"
#include "gpu/replay.h"
#include "os/fd.h"

namespace cupel::gpu {
namespace {

using engine::Finding;
using engine::Run;

constexpr size_t kMostCubinBytes = 256u << 20;
constexpr const char* kTimeOut = "time_out";

struct Fault {
  CuResult code;
  const char* finding;
  const char* message;
};
// CUresult values that a kernel causes.
constexpr Fault kFaults[] = {
    {700, "illegal_address", "A kernel accessed memory that it was not given."},
    {701, "launch_out_of_resources", "A launch asked for more registers or memory than there are."},
    {710, "device_assert", "A kernel's assertion failed."},
    {714, "hardware_stack_error", "A kernel spoilt its call stack or ran out of it."},
    {715, "illegal_instruction", "A kernel executed an illegal instruction."},
    {716, "misaligned", "A kernel accessed memory at an address that is not aligned."},
    {717, "illegal_address", "A kernel accessed an address outside the state space it named."},
    {718, "invalid_program_counter", "A kernel jumped to nowhere."},
    {719, "launch_failed", "A kernel failed while it ran."},
    {720, "cooperative_launch_too_large", "The blocks of a cooperative launch do not all fit."},
};

Finding FaultFinding(CuResult code, const Driver& driver) {
  Finding finding;
  finding.code = "gpu_fault";
  finding.message = "The plan failed on the GPU.";
  for (const Fault& fault : kFaults) {
    if (fault.code != code) continue;
    finding.code = fault.finding;
    finding.message = fault.message;
  }
  finding.message +=
      fmt::format(" {}. The emulator (--device emu) names the line.", driver.Describe(code));
  return finding;
}

class GpuProgram : public engine::Program {
 public:
  GpuProgram(const Device& device, Module module, ReplayOptions options)
      : device_(device), module_(std::move(module)), options_(options), memory_(device) {}

  Result<Run> Execute(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
                      const engine::RunOptions& options) override {
    if (lost_) {
      return Fail(ErrorCode::kInternal, "the GPU's context was lost by an earlier fault");
    }
    const auto start = std::chrono::steady_clock::now();
    Run run;
    TRY(memory_.Bind(plan, arguments, module_.get(), options.poison));
    Replay replay(device_, module_, memory_);
    for (const plan::Node& node : plan.nodes) {
      TRY_ASSIGN(Refusal refusal, replay.Enqueue(node));
      if (refusal.ok()) continue;
      if (refusal.finding) run.findings.push_back(std::move(*refusal.finding));
      run.unsupported = std::move(refusal.unsupported);
      break;
    }
    const bool refused = !run.findings.empty() || !run.unsupported.empty();
    TRY(Finish(&run));
    if (!refused && run.findings.empty()) TRY(Look(plan, arguments, &run));
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return run;
  }

 private:
  Status Finish(Run* run) {
    CuResult code = 0;
    if (auto done = device_.Await(options_.deadline, &code); !done) {
      if (done.error().code != ErrorCode::kTimeout) return done;
      lost_ = true;
      Finding finding;
      finding.code = kTimeOut;
      finding.message = fmt::format("The kernels were still running after {} s.",
                                    options_.deadline.count() / 1000);
      run->findings.push_back(std::move(finding));
    } else if (code != 0) {
      lost_ = true;
      run->findings.push_back(FaultFinding(code, device_.driver()));
    }
    return {};
  }

  /// What a run that came to its end left behind.
  Status Look(const plan::Plan& plan, std::span<const std::span<const std::byte>> arguments,
              Run* run) {
    TRY_ASSIGN(const std::optional<std::string> stray, memory_.FindStrayWrite());
    if (stray) {
      Finding finding;
      finding.code = "out_of_bounds";
      finding.where = *stray;
      finding.message = "Something wrote beside a buffer.";
      run->findings.push_back(std::move(finding));
    }
    TRY(CheckArguments(plan, arguments, run));
    for (const plan::View& view : plan.outputs) {
      TRY_ASSIGN(engine::OutputTensor output, Extract(view, run));
      run->outputs.push_back(std::move(output));
    }
    run->completed = std::none_of(run->findings.begin(), run->findings.end(),
                                  [](const Finding& f) { return f.code == "out_of_bounds"; });
    if (!run->completed) run->outputs.clear();
    return {};
  }

  /// Device memory at `from`, waited for.
  Status Read(CuPointer from, std::span<std::byte> to) {
    if (to.empty()) return {};
    const Driver& driver = device_.driver();
    TRY(driver.Check(driver.copy_out(to.data(), from, to.size(), device_.stream()),
                     "copying from the GPU"));
    return driver.Check(driver.stream_synchronize(device_.stream()), "copying from the GPU");
  }

  Status CheckArguments(const plan::Plan& plan,
                        std::span<const std::span<const std::byte>> arguments, Run* run) {
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      const plan::Buffer& buffer = plan.buffers[i];
      if (buffer.kind != plan::BufferKind::kArgument || buffer.bytes == 0) continue;
      const std::span<const std::byte> before = arguments[static_cast<size_t>(buffer.argument)];
      bytes_.resize(before.size());
      TRY(Read(memory_.places()[i].address, bytes_));
      const auto first = std::mismatch(before.begin(), before.end(), bytes_.begin()).first;
      if (first == before.end()) continue;
      const auto at = first - before.begin();
      Finding finding;
      finding.code = "writes_input";
      finding.where = fmt::format("{} + {} bytes", memory_.places()[i].name, at);
      finding.message = fmt::format("{} is an input, but its bytes changed, first at byte {}",
                                    memory_.places()[i].name, at);
      run->findings.push_back(std::move(finding));
    }
    return {};
  }

  Result<engine::OutputTensor> Extract(const plan::View& view, Run* run) {
    engine::OutputTensor output;
    output.is_none = view.address.buffer == plan::kNoneOutput;
    if (output.is_none) return output;
    output.dtype = view.dtype;
    output.shape = view.shape;
    const auto size = static_cast<size_t>(SizeOf(view.dtype));
    size_t elements = 1, last = 0;
    for (size_t d = 0; d < view.shape.size(); ++d) {
      elements *= static_cast<size_t>(view.shape[d]);
      last += static_cast<size_t>(std::max<int64_t>(view.shape[d], 1) - 1) *
              static_cast<size_t>(view.strides[d]);
    }
    output.bytes.resize(elements * size);
    if (elements == 0) return output;
    if (!memory_.Contains(view.address, (last + 1) * size)) {
      Finding finding;
      finding.code = "out_of_bounds";
      finding.message = "An output that is returned goes outside its buffer.";
      run->findings.push_back(std::move(finding));
      return output;
    }
    bytes_.resize((last + 1) * size);
    TRY(Read(*memory_.AddressOf(view.address), bytes_));
    std::vector<int64_t> at(view.shape.size(), 0);
    for (size_t i = 0; i < elements; ++i) {
      size_t offset = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        offset += static_cast<size_t>(at[d]) * static_cast<size_t>(view.strides[d]);
      }
      std::memcpy(output.bytes.data() + i * size, bytes_.data() + offset * size, size);
      for (size_t d = at.size(); d-- > 0 && ++at[d] == view.shape[d];) at[d] = 0;
    }
    return output;
  }

  const Device& device_;
  Module module_;
  ReplayOptions options_;
  PlanMemory memory_;
  std::vector<std::byte> bytes_;
  bool lost_ = false;
};

}  // namespace

bool EndsContext(const Finding& finding) {
  if (finding.code == kTimeOut || finding.code == "gpu_fault") return true;
  return std::any_of(std::begin(kFaults), std::end(kFaults),
                     [&](const Fault& fault) { return finding.code == fault.finding; });
}

Result<std::unique_ptr<engine::Program>> LoadProgram(const Device& device,
                                                     const build::Image& image,
                                                     ReplayOptions options) {
  std::string code = image.ptx;
  if (!image.cubin.empty()) {
    TRY_ASSIGN(code, os::ReadFile(image.cubin, kMostCubinBytes));
  }
  TRY_ASSIGN(Module module, Module::Load(device, code, "the kernel"));
  return std::unique_ptr<engine::Program>(
      std::make_unique<GpuProgram>(device, std::move(module), options));
}

}  // namespace cupel::gpu
