// The cupel_rt_* functions that the shim's tensors call (shim/cupel/abi.h).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "record/standin.h"

using namespace cupel::record;

namespace {

void CheckDevice(const CupelTensor* tensor, const char* api) {
  if (tensor->device != CUPEL_CUDA) {
    Refuse("host_exception", fmt::format("{} was called on a tensor that is not on the GPU", api),
           api);
  }
}

}  // namespace

extern "C" {

uint64_t cupel_rt_alloc(uint64_t bytes) {
  Session& session = CurrentSession();
  const uint64_t total = session.device.global_memory_bytes;
  const Allocation* allocation = bytes <= total && session.memory.live_bytes() + bytes <= total
                                     ? session.memory.Allocate(bytes, Origin::kTensor)
                                     : nullptr;
  if (allocation == nullptr) {
    Refuse("host_exception",
           fmt::format("CUDA out of memory: {} more bytes exceed the memory of the {}", bytes,
                       session.device.full_name));
  }
  return allocation->base;
}

void cupel_rt_free(uint64_t storage) { CurrentSession().memory.Free(storage, Origin::kTensor); }

void cupel_rt_copy(const CupelTensor* to, const CupelTensor* from) {
  CheckDevice(to, "copy_");
  CheckDevice(from, "copy_");
  RawCopyView copy{ViewOf(*to), ViewOf(*from)};
  for (const int64_t size : copy.to.shape) {
    if (size == 0) return;
  }
  CurrentSession().Submit(CurrentSession().current_stream, std::move(copy));
}

void cupel_rt_fill(const CupelTensor* to, const void* element) {
  CheckDevice(to, "fill_");
  FillView(CurrentSession().current_stream, ViewOf(*to), element);
}

void cupel_rt_upload(const CupelTensor* to, const void* bytes, uint64_t size) {
  CheckDevice(to, "a copy to the GPU");
  if (size == 0) return;
  CurrentSession().Submit(CurrentSession().current_stream,
                          RawUpload{ViewOf(*to).address, bytes, size});
}

void cupel_rt_item(const CupelTensor* from, void* element) {
  CheckDevice(from, "item()");
  const RawView view = ViewOf(*from);
  CurrentSession().ReadDevice(view.address, static_cast<uint64_t>(SizeOf(view.dtype)), element,
                              "item()");
}

uint64_t cupel_rt_current_stream(void) { return CurrentSession().current_stream; }

void cupel_rt_set_current_stream(uint64_t stream) {
  Session& session = CurrentSession();
  if (!session.streams.Exists(stream)) {
    Refuse("host_exception", "a guard sets a stream that does not exist");
  }
  session.current_stream = stream;
}

uint64_t cupel_rt_pool_stream(int32_t high_priority) {
  // PyTorch returns the 32 streams of a pool one after another.
  static std::array<std::vector<uint64_t>, 2> pools;
  static std::array<size_t, 2> next{};
  constexpr size_t kPoolSize = 32;
  const size_t which = high_priority != 0 ? 1 : 0;
  std::vector<uint64_t>& pool = pools[which];
  const size_t index = next[which]++ % kPoolSize;
  if (index >= pool.size()) {
    pool.push_back(CurrentSession().streams.CreateStream(false, high_priority != 0 ? -1 : 0));
  }
  return pool[index];
}

void cupel_rt_refuse(const char* code, const char* message) {
  const std::string_view text = code;
  if (text.starts_with("unsupported")) RefuseUnsupported(text, message);
  Refuse(text, message);
}

}  // extern "C"
