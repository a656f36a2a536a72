// Tested by cli/gpu_profile_test.cc and evolve/feedback_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

namespace cupel::plan {

uint64_t ElementsOf(const View& view) {
  uint64_t count = 1;
  for (const int64_t size : view.shape) count *= static_cast<uint64_t>(size);
  return count;
}

Traffic LeastTraffic(const Plan& plan) {
  Traffic traffic;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kArgument) traffic.read_bytes += buffer.bytes;
  }
  for (const View& output : plan.outputs) {
    if (output.address.buffer == kNoneOutput) continue;
    traffic.written_bytes += ElementsOf(output) * static_cast<uint64_t>(SizeOf(output.dtype));
  }
  return traffic;
}

}  // namespace cupel::plan
