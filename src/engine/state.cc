// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <algorithm>
#include <cstring>

#include "base/demangle.h"

namespace cupel::engine {
namespace {

constexpr uint64_t kMostKept = 256u << 20;

}  // namespace

records::Finding StateFinding(const std::string& name) {
  records::Finding finding;
  finding.code = "device_state";
  finding.kernel = "device state";
  finding.severity = records::Severity::kWarning;
  finding.where = Demangle(name);
  finding.message =
      "The kernels change a __device__ variable. If a call reads it before it writes it, its "
      "results "
      "depend on earlier calls.";
  return finding;
}

void Scramble(std::span<std::byte> bytes, Random& random) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint32_t)) {
    const auto drawn = random();
    // Every other word is uniform over its bits, so that floats of every size also occur.
    const uint32_t shift = drawn >> 63 == 0 ? 0 : static_cast<uint32_t>(drawn >> 32) % 31;
    const uint32_t word = (static_cast<uint32_t>(drawn) & 0x7fffffffU) >> shift;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

bool OutlivesCalls(const plan::Buffer& buffer) {
  return buffer.kind == plan::BufferKind::kWorkspace || buffer.kind == plan::BufferKind::kTemporary;
}

bool CanKeepMemory(const plan::Plan& plan) {
  uint64_t bytes = 0;
  for (const plan::Buffer& buffer : plan.buffers) {
    if (!OutlivesCalls(buffer)) continue;
    if (buffer.bytes > kMostKept - bytes) return false;
    bytes += buffer.bytes;
  }
  return true;
}

}  // namespace cupel::engine
