// SPDX-License-Identifier: Apache-2.0
#include "trace/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "os/frames.h"
#include "record/protocol.h"
#include "trace/join.h"

namespace cupel::trace {

namespace {

/// An unknown code becomes "host_crash". Error: not a refusal.
Result<record::Refusal> ReadRefusal(const Json& json) {
  TRY_ASSIGN(record::Refusal refusal, record::RefusalFromJson(json));
  constexpr std::string_view kKnown[] = {
      "host_exception",      "host_privilege", "wrong_arguments", "no_function",
      "wrong_return",        "impure",         "unsupported_api", "unsupported_operator",
      "reads_device_memory", "compile_error",  "no_module",       "build_timeout",
      "build_limits",        "unordered_work", "freed_memory",    "illegal_launch",
      "no_configuration"};
  if (std::find(std::begin(kKnown), std::end(kKnown), refusal.code) == std::end(kKnown)) {
    refusal.code = "host_crash";
  }
  return refusal;
}

}  // namespace

Result<std::variant<Json, record::Refusal>> ReadAnswer(PythonChild& child, std::string_view who,
                                                       const AnswerLimit& limit,
                                                       const std::stop_token& stop) {
  using Answer = std::variant<Json, record::Refusal>;
  os::FrameEnd end{};
  auto frame = os::ReadFrame(child.channel(), limit.deadline, &end, stop);
  if (!frame) {
    if (frame.error().code == ErrorCode::kCancelled) return tl::unexpected(frame.error());
    return Answer(Damaged("its answer is too large"));
  }
  if (!*frame && end == os::FrameEnd::kTimeout) {
    return Answer(record::Refusal{
        "host_timeout", fmt::format("{} did not finish within {} s", who, limit.seconds.count()),
        "", false});
  }
  if (!*frame) {
    return Answer(record::Refusal{"host_crash",
                                  fmt::format("{} ended its process ({})", who, child.HowItEnded()),
                                  "", false});
  }
  auto json = ParseJson(**frame, who);
  if (!json || !json->is_object()) return Answer(Damaged("its answer is not JSON"));
  if (!json->contains("refusal")) return Answer(std::move(*json));
  auto refusal = ReadRefusal((*json)["refusal"]);
  if (!refusal) return Answer(Damaged("its refusal cannot be read"));
  return Answer(std::move(*refusal));
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
