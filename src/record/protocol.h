// The messages between parent and recorder child, as JSON in channel frames. The child trusts the
// parent. The parent validates everything that the child sends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "device/device.h"
#include "record/call_recorder.h"
#include "record/work.h"
#include "task/tensor.h"

namespace cupel::record {

/// The first frame to the child.
struct Setup {
  std::string shared_object;
  device::Description device;
  int images = 1;  // that the shared object has
  std::vector<Kernel> kernels;
};
Json ToJson(const Setup& setup);
Result<Setup> SetupFromJson(const Json& json);

/// One argument as the child sees it. A tensor has no contents, except for those that host code may
/// read (task::HostMayRead).
struct Argument {
  enum class Kind { kNone, kBool, kInt, kDouble, kString, kTensor, kTuple } kind = Kind::kNone;
  int64_t integer = 0;          // kBool, kInt
  double number = 0;            // kDouble
  std::string text;             // kString
  std::vector<Argument> items;  // kTuple
  // kTensor
  DType dtype = DType::kF32;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  uint64_t storage_bytes = 0;
  std::string value;  // the elements, if host code may read them
};

/// A text from a child, shortened and with control characters replaced.
std::string CleanText(std::string text);

/// The members of a refusal from a child, with CleanText. The code may be any text.
Result<Refusal> RefusalFromJson(const Json& json);

/// Every later frame to the child: a request to record `function` with arguments like these.
struct Request {
  std::string function;
  std::vector<Argument> args;
  int recordings = 0;
  uint64_t seed = 0;
  int64_t budget_us = 0;            // after this time, fewer recordings are enough
  bool may_return_numbers = false;  // a program calls the function, and uses them
  bool other_stream = false;        // PyTorch's current stream is not the default one
};
Request MakeRequest(const std::string& function, const std::vector<task::Value>& args);
Json ToJson(const Request& request);
Result<Request> RequestFromJson(const Json& json);

}  // namespace cupel::record
