// SPDX-License-Identifier: Apache-2.0
#include "fake_recorder.h"

#include <cuda_runtime_api.h>

#include <cstring>

namespace fake {
namespace {

unsigned char next_item[8];
uint64_t current_stream = 0;
uint64_t next_address = 0x10000000;
dim3 next_grid;
dim3 next_block;

}  // namespace

std::vector<std::string>& Log() {
  static std::vector<std::string> log;
  return log;
}
Refused& LastRefusal() {
  static Refused refused;
  return refused;
}
void SetItem(const void* element, size_t size) { std::memcpy(next_item, element, size); }

CupelTensor Argument(std::vector<int64_t> sizes, int dtype, uint64_t storage) {
  CupelTensor t = {};
  t.storage = storage;
  t.dtype = dtype;
  t.device = CUPEL_CUDA;
  t.ndim = static_cast<int>(sizes.size());
  int64_t stride = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    t.sizes[i] = sizes[static_cast<size_t>(i)];
    t.strides[i] = stride;
    stride *= t.sizes[i];
  }
  t.storage_bytes = static_cast<uint64_t>(stride) * 8;
  return t;
}
CupelValue Of(const CupelTensor& tensor) {
  CupelValue v = {};
  v.kind = CUPEL_TENSOR;
  v.tensor = &tensor;
  return v;
}
CupelValue Of(int i) {
  CupelValue v = {};
  v.kind = CUPEL_INT;
  v.i = i;
  return v;
}
CupelValue Of(double d) {
  CupelValue v = {};
  v.kind = CUPEL_DOUBLE;
  v.d = d;
  return v;
}
CupelValue Of(bool b) {
  CupelValue v = {};
  v.kind = CUPEL_BOOL;
  v.i = b;
  return v;
}
CupelValue Of(const char* s) {
  CupelValue v = {};
  v.kind = CUPEL_STRING;
  v.s = s;
  v.count = static_cast<int>(std::strlen(s));
  return v;
}
CupelValue None() { return {}; }
CupelValue Tuple(const std::vector<CupelValue>& items) {
  CupelValue v = {};
  v.kind = CUPEL_TUPLE;
  v.count = static_cast<int>(items.size());
  v.items = items.data();
  return v;
}

std::string Show(const CupelTensor& t) {
  const char* names[] = {"u8", "i8", "i16", "i32",  "i64", "f16", "f32", "f64",
                         "",   "",   "",    "bool", "",    "",    "",    "bf16"};
  std::string text = names[t.dtype];
  text += '[';
  for (int i = 0; i < t.ndim; ++i) text += (i ? "," : "") + std::to_string(t.sizes[i]);
  return text + ']';
}
std::string Show(const CupelValue& v) {
  char text[64];
  switch (v.kind) {
    case CUPEL_NONE:
      return "None";
    case CUPEL_BOOL:
      return v.i ? "True" : "False";
    case CUPEL_INT:
      return std::to_string(v.i);
    case CUPEL_DOUBLE:
      std::snprintf(text, sizeof text, "%g", v.d);
      return text;
    case CUPEL_STRING:
      return "'" + std::string(v.s, static_cast<size_t>(v.count)) + "'";
    case CUPEL_TENSOR:
      return Show(*v.tensor);
    default:
      break;
  }
  std::string list = "(";
  for (int i = 0; i < v.count; ++i) list += (i ? ", " : "") + Show(v.items[i]);
  return list + ")";
}

Answer Run(Call call, const char* function, const std::vector<CupelValue>& args) {
  Answer answer;
  char message[512] = "";
  auto ret = [](void* context, const CupelValue* v) {
    *static_cast<std::string*>(context) = Show(*v);
  };
  answer.status = call(function, args.data(), static_cast<int>(args.size()), ret, &answer.result,
                       message, sizeof message);
  answer.message = message;
  return answer;
}

}  // namespace fake

extern "C" {

uint64_t cupel_rt_alloc(uint64_t bytes) {
  fake::Log().push_back("alloc " + std::to_string(bytes));
  uint64_t address = fake::next_address;
  fake::next_address += (bytes + 1023) / 512 * 512;
  return address;
}
void cupel_rt_free(uint64_t) { fake::Log().push_back("free"); }
void cupel_rt_copy(const CupelTensor* to, const CupelTensor* from) {
  fake::Log().push_back("copy " + fake::Show(*to) + " <- " + fake::Show(*from));
}
void cupel_rt_fill(const CupelTensor* to, const void* element) {
  size_t size = to->dtype == 7 || to->dtype == 4                      ? 8
                : to->dtype == 6 || to->dtype == 3                    ? 4
                : to->dtype == 5 || to->dtype == 15 || to->dtype == 2 ? 2
                                                                      : 1;
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<const unsigned char*>(element)[i]);
    hex += byte;
  }
  fake::Log().push_back("fill " + fake::Show(*to) + " " + hex);
}
void cupel_rt_upload(const CupelTensor* to, const void*, uint64_t size) {
  fake::Log().push_back("upload " + fake::Show(*to) + " " + std::to_string(size));
}
void cupel_rt_item(const CupelTensor* from, void* element) {
  fake::Log().push_back("item " + fake::Show(*from));
  std::memcpy(element, fake::next_item, sizeof fake::next_item);
}
/// Results are like the first argument, and new memory unless the operator's name ends with "_".
void cupel_rt_operator(const char* name, const CupelValue* args, int32_t count,
                       CupelTakeResult take, void* context) {
  std::string text = "operator " + std::string(name);
  for (int32_t i = 0; i < count; ++i) {
    const CupelValue& value = args[i];
    text += value.kind == CUPEL_TENSOR  ? " " + fake::Show(*value.tensor)
            : value.kind == CUPEL_INT   ? " " + std::to_string(value.i)
            : value.kind == CUPEL_TUPLE ? " list of " + std::to_string(value.count)
                                        : " kind " + std::to_string(value.kind);
  }
  fake::Log().push_back(text);
  CupelTensor shape = *args[0].tensor;
  const std::string overload = std::string(name).substr(0, std::string(name).find('.'));
  take(context, &shape, overload.back() == '_' ? 0 : -1);
}
uint64_t cupel_rt_current_stream(void) { return fake::current_stream; }
void cupel_rt_set_current_stream(uint64_t stream) { fake::current_stream = stream; }
uint64_t cupel_rt_pool_stream(int32_t high_priority) { return high_priority ? 0x52 : 0x51; }
void cupel_rt_refuse(const char* code, const char* message) {
  fake::LastRefusal() = {code, message};
  throw fake::LastRefusal();
}

// The functions of the CUDA runtime that a loaded candidate calls, under their own names.
// NOLINTBEGIN(bugprone-reserved-identifier)
void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t, cudaStream_t) {
  fake::next_grid = grid;
  fake::next_block = block;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaSuccess; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  fake::Log().push_back("launch " + std::to_string(fake::next_grid.x) + "x" +
                        std::to_string(fake::next_block.x));
  return cudaSuccess;
}
// NOLINTEND(bugprone-reserved-identifier)
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorInvalidValue ? "invalid argument" : "some error";
}
}
