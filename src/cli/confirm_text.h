// A record of `cupel confirm` as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace cupel::cli {

/// `record` is a document "cupel.confirm/1" that cupel made.
std::string ConfirmText(const Json& record);

}  // namespace cupel::cli
