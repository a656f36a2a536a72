// Reader of the safetensors format, in which cases are stored: 8 bytes of header length, a JSON
// header, the data. It checks every length, offset and shape before using it.
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
  /// Contiguous. They borrow the parsed bytes.
  std::map<std::string, Tensor> tensors;
};

/// `what` names the file in messages. As the format requires, tensors must cover the data exactly,
/// without overlaps or holes. Errors are kInvalidArgument.
Result<Safetensors> ParseSafetensors(std::span<const std::byte> file, std::string_view what);

}  // namespace cupel::task
