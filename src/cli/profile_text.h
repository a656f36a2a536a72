// An emulator profile as text: the slowest launches in words, then a table of the launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/device.h"
#include "engine/engine.h"
#include "judge/launch_text.h"

namespace cupel::cli {

using judge::Dims;
using judge::kProfileWidth;
using judge::Percent;
using judge::Remark;
using judge::RemarkText;
using judge::ShortName;
using judge::SourceText;

/// The text about the launches of one call on `device`. Ends with a line end.
std::string ProfileText(const records::Counters& counters, const device::Description& device,
                        const SourceText& source);

}  // namespace cupel::cli
