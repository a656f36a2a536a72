// Tested by cli/gpu_profile_test.cc and evolve/feedback_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

namespace cupel::plan {

Traffic LeastTraffic(const Plan& plan) {
  Traffic traffic;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kArgument) traffic.read_bytes += buffer.bytes;
  }
  for (const View& output : plan.outputs) {
    if (output.address.buffer == kNoneOutput) continue;
    auto bytes = static_cast<uint64_t>(SizeOf(output.dtype));
    for (const int64_t size : output.shape) bytes *= static_cast<uint64_t>(size);
    traffic.written_bytes += bytes;
  }
  return traffic;
}

}  // namespace cupel::plan
