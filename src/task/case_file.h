// Reads a case from its file, or the arguments of a call without their data: docs/formats/case.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "os/mapped_file.h"
#include "task/case.h"

namespace cupel::task {

/// Takes ownership of the mapping. `what` names the file in messages. Members that the file does
/// not store, such as setting and content_hash, stay empty. Errors are kInvalidArgument.
Result<Case> ReadCase(os::MappedFile mapping, std::string_view what);

/// Reads "args" as in a case, "storages", each with "name", "dtype" and "elements", and perhaps
/// "defaults", an object of whole numbers for "init" and one for "inputs". Storages borrow `zeros`;
/// a storage that is larger is an error. Errors are kInvalidArgument.
Result<CallShape> ReadCallShape(const Json& json, std::span<const std::byte> zeros,
                                std::string_view what);

}  // namespace cupel::task
