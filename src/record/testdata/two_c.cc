// Registers device code before the files of testdata/two_*.cu do.
// SPDX-License-Identifier: Apache-2.0
extern "C" void** __cudaRegisterFatBinary(void* fat);

namespace {

struct {
  int magic = 0x466243b1, version = 1;
  const void* data = nullptr;
  void* file = nullptr;
} forged;

__attribute__((constructor(101))) void Register() {
  forged.data = __builtin_frame_address(0);  // the stack is above all libraries
  __cudaRegisterFatBinary(&forged);
}

}  // namespace
