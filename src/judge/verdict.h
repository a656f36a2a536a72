// Decides about a candidate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "records/verdict.h"

namespace cupel::judge {

/// 0, 1, 3, 2 in the order of the enumerators.
int ExitStatus(records::Decision decision);

/// Sets the status of each setting, the decision and the reasons from the setting reports. Reasons
/// that are already there (a candidate that does not compile) stay in front. If there are any, the
/// decision is kRejected, unless the caller has set kUnsupported or kError. Otherwise accepts only
/// if at least one setting passed and every other setting passed, has no reference, cannot be
/// judged, was refused at derived sizes, or is not declared. Equal reasons of several trials and
/// settings become one reason, with its first place and "also in …".
records::Verdict Decide(records::Verdict verdict);

/// "single-0 trial 7 (extremes) output 0", as used in reasons.
std::string PlaceText(const records::SettingReport& setting, size_t trial, size_t output);

}  // namespace cupel::judge
