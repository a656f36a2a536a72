// Reader of the safetensors layout, in which cases are stored: 8 bytes of header length, a JSON
// header, the data. Every length, offset and shape is checked before it is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "task/tensor.h"

namespace cupel::task {

struct Safetensors {
  std::map<std::string, std::string> metadata;
  /// Contiguous; they borrow the bytes that were parsed.
  std::map<std::string, Tensor> tensors;
};

/// `what` names the file in messages. The data must cover the file exactly, without overlaps or
/// holes, as the format demands. Errors are kInvalidArgument.
Result<Safetensors> ParseSafetensors(std::span<const std::byte> file, std::string_view what);

}  // namespace cupel::task
