// A recorder that only writes down what a candidate asks of it, for tests of the shim.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cupel/abi.h"

namespace fake {

/// "alloc 24", "copy f32[2,3]@0 <- f16[2,3]@0", "fill f32[4] 0000803f", "upload", "item", "launch"
/// ...
std::vector<std::string>& Log();
/// The element that cupel_rt_item hands out, as bytes.
void SetItem(const void* element, size_t size);
/// What cupel_rt_refuse throws here (a real recorder ends the process).
struct Refused {
  std::string code;
  std::string message;
};
/// The last refusal; tests of calls read it, since the shim catches what is thrown.
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

/// How a call ended and what came back, tensors as "f32[2,3]".
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
