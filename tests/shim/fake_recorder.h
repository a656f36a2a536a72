// A recorder that only logs the candidate's calls, for tests of the shim.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cupel/abi.h"

namespace fake {

/// The calls so far: "alloc 24", "copy f32[2,3] <- f16[2,3]", "fill f32[4] 0000803f", "upload",
/// "item", "launch" ...
std::vector<std::string>& Log();
/// Sets the element that cupel_rt_item returns, as bytes.
void SetItem(const void* element, size_t size);
/// The exception that cupel_rt_refuse throws here (a real recorder ends the process).
struct Refused {
  std::string code;
  std::string message;
};
/// The last refusal. Tests of calls read it, since the shim catches exceptions.
Refused& LastRefusal();

/// A contiguous argument of 4-byte floats (or of `dtype`) at a made-up device address.
CupelTensor Argument(std::vector<int64_t> sizes, int dtype = 6, uint64_t storage = 0x7000000);
CupelValue Of(const CupelTensor& tensor);
CupelValue Of(int i);
CupelValue Of(double d);
CupelValue Of(bool b);
CupelValue Of(const char* s);
CupelValue None();
CupelValue Tuple(const std::vector<CupelValue>& items);

/// The status, result and message of a call; tensors as "f32[2,3]".
struct Answer {
  int status = -1;
  std::string result;
  std::string message;
};
using Call = int (*)(const char*, const CupelValue*, int32_t, CupelReturn, void*, char*, int32_t);
Answer Run(Call call, const char* function, const std::vector<CupelValue>& args);
std::string Show(const CupelValue& value);
std::string Show(const CupelTensor& tensor);

}  // namespace fake
