// The schema of a suite run's file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "archive/schema.h"

namespace cupel::archive {

const Schema& SuiteSchema();

}  // namespace cupel::archive
