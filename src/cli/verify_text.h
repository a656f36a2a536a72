// The results of `cupel verify` as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/check/verify.h"

namespace cupel::cli {

std::string VerificationText(const app::Verification& result);
/// The text about a record that could not be read.
std::string FailedText(const std::string& record, const Error& error);
/// Like "12 of 37 records verified, 1 not verified, 24 not repeated".
std::string SummaryText(const app::Verifications& all);

}  // namespace cupel::cli
