// The results of `cupel bench` as a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/measure/bench.h"

namespace cupel::cli {

struct BenchTextOptions {
  bool colour = false;
};

std::string BenchText(const records::Bench& report, const BenchTextOptions& options);

}  // namespace cupel::cli
