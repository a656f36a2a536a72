// Reads the oracle's replies about results in finite fields. The task's code runs in the process
// that sends them, so every count and residue is checked. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "oracle/oracle.h"

namespace cupel::oracle {

/// Also reads and deletes the file that the reply names.
Result<FieldResults> ReadElements(const Json& reply);

}  // namespace cupel::oracle
