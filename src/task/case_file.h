// Reads a case from its file: docs/formats/case.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "os/mapped_file.h"
#include "task/case.h"

namespace cupel::task {

/// Takes ownership of the mapping. `what` names the file in messages. Members that the file does
/// not store, such as setting and content_hash, stay empty. Errors are kInvalidArgument.
Result<Case> ReadCase(os::MappedFile mapping, std::string_view what);

}  // namespace cupel::task
