// Reads a case from its file: docs/formats/case.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "os/mapped_file.h"
#include "task/case.h"

namespace cupel::task {

/// Takes over the mapping; `what` names the file in messages. Setting, content hash and whatever
/// else is not in the file stay empty. Errors are kInvalidArgument.
Result<Case> ReadCase(os::MappedFile mapping, std::string_view what);

}  // namespace cupel::task
