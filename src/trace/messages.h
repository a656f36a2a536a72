// What all messages to and from the locked Python processes have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stop_token>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "base/result.h"
#include "device/device.h"
#include "record/call_recorder.h"
#include "trace/python_pool.h"

namespace cupel::trace {

/// What programs may ask about the device.
Json DeviceJson(const device::Description& device);

/// How long a process may take for an answer.
struct AnswerLimit {
  std::chrono::steady_clock::time_point deadline;
  std::chrono::seconds seconds;  // for the message
};

/// The next message of a process, which may be hostile: a JSON object, or why there is none. `who`
/// is the subject of messages: "the program". A refusal with an unknown code becomes "host_crash".
/// Error: kCancelled.
Result<std::variant<Json, record::Refusal>> ReadAnswer(PythonChild& child, std::string_view who,
                                                       const AnswerLimit& limit,
                                                       const std::stop_token& stop);

}  // namespace cupel::trace
