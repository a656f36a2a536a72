// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cupel::fuzz::RunOne({reinterpret_cast<const char*>(data), size});
  return 0;
}
