// SPDX-License-Identifier: Apache-2.0
#include "gpu/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace cupel::gpu {
namespace {

using records::Finding;

constexpr const char* kTimeOut = "time_out";

struct Fault {
  CuResult code;
  const char* finding;
  const char* message;
};
// CUresult values that a kernel causes.
constexpr Fault kFaults[] = {
    {700, "illegal_address", "A kernel accessed memory outside its buffers."},
    {701, "launch_out_of_resources",
     "A launch requested more registers or memory than the GPU has."},
    {710, "device_assert", "A kernel's assertion failed."},
    {714, "hardware_stack_error", "A kernel corrupted or exceeded its call stack."},
    {715, "illegal_instruction", "A kernel executed an illegal instruction."},
    {716, "misaligned", "A kernel accessed memory at an address that is not aligned."},
    {717, "illegal_address",
     "A kernel accessed an address outside the state space of the instruction."},
    {718, "invalid_program_counter", "A kernel jumped to an invalid address."},
    {719, "launch_failed", "A kernel failed while it ran."},
    {720, "cooperative_launch_too_large",
     "A cooperative launch has more blocks than fit on the GPU at once."},
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

}  // namespace

Result<std::optional<Finding>> AwaitKernels(const Device& device,
                                            std::chrono::milliseconds deadline, bool spin) {
  CuResult code = 0;
  if (auto done = device.Await(deadline, &code, spin); !done) {
    if (done.error().code != ErrorCode::kTimeout) return tl::unexpected<Error>(done.error());
    Finding finding;
    finding.code = kTimeOut;
    finding.message =
        fmt::format("The kernels were still running after {} s.", deadline.count() / 1000);
    return std::optional<Finding>(std::move(finding));
  }
  if (code == 0) return std::optional<Finding>();
  return std::optional<Finding>(FaultFinding(code, device.driver()));
}

bool EndsContext(const Finding& finding) {
  if (finding.code == kTimeOut || finding.code == "gpu_fault") return true;
  return std::any_of(std::begin(kFaults), std::end(kFaults),
                     [&](const Fault& fault) { return finding.code == fault.finding; });
}

}  // namespace cupel::gpu
