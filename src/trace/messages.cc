// SPDX-License-Identifier: Apache-2.0
#include "trace/messages.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "record/protocol.h"

namespace cupel::trace {

Result<record::Refusal> ReadRefusal(const Json& json) {
  TRY_ASSIGN(record::Refusal refusal, record::RefusalFromJson(json));
  constexpr std::string_view kKnown[] = {
      "host_exception",      "host_privilege", "wrong_arguments", "no_function",
      "wrong_return",        "impure",         "unsupported_api", "unsupported_operator",
      "reads_device_memory", "compile_error",  "no_module",       "build_timeout",
      "build_limits",        "unordered_work"};
  if (std::find(std::begin(kKnown), std::end(kKnown), refusal.code) == std::end(kKnown)) {
    refusal.code = "host_crash";
  }
  return refusal;
}

Json DeviceJson(const device::Description& device) {
  return Json{{"name", device.full_name.empty() ? device.name : device.full_name},
              {"major", device.major},
              {"minor", device.minor},
              {"global_memory_bytes", device.global_memory_bytes},
              {"sm_count", device.sm_count},
              {"max_threads_per_sm", device.max_threads_per_sm},
              {"registers_per_sm", device.registers_per_sm},
              {"l2_bytes", device.l2_bytes},
              {"shared_per_block", device.shared_per_block},
              {"shared_per_block_optin", device.shared_per_block_optin},
              {"shared_per_sm", device.shared_per_sm}};
}

}  // namespace cupel::trace
