// The results of `cupel selftest` as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/selftest/selftest.h"

namespace cupel::cli {

std::string SelftestText(const app::SelftestReport& report);

}  // namespace cupel::cli
