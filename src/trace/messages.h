// What all messages to and from the locked Python processes have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "device/device.h"
#include "record/call_recorder.h"

namespace cupel::trace {

/// What programs may ask about the device.
Json DeviceJson(const device::Description& device);

/// A refusal from a process, which may be hostile. An unknown code becomes "host_crash". Error: not
/// a refusal.
Result<record::Refusal> ReadRefusal(const Json& json);

}  // namespace cupel::trace
