// A fake CUPTI library for the tests of KernelClock. A flush delivers the records for the mode in
// $CUPEL_TEST_CUPTI. "late": two kernels in the wrong order, with another record between them.
// "lost": one kernel, while others were dropped. "denied": records cannot be enabled.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr size_t kRecordBytes = 208;
constexpr int kNoMoreRecords = 12, kNoPrivileges = 35;
void (*request)(uint8_t**, size_t*, size_t*) = nullptr;
void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t) = nullptr;

std::string Mode() {
  const char* mode = std::getenv("CUPEL_TEST_CUPTI");
  return mode != nullptr ? mode : "";
}

void Record(uint8_t* at, uint32_t kind, uint64_t start, uint64_t end, const char* name) {
  std::memset(at, 0, kRecordBytes);
  std::memcpy(at, &kind, sizeof kind);
  std::memcpy(at + 16, &start, sizeof start);
  std::memcpy(at + 24, &end, sizeof end);
  std::memcpy(at + 104, static_cast<const void*>(&name), sizeof name);
}

}  // namespace

extern "C" {

int cuptiGetVersion(uint32_t* version) {
  *version = 130001;
  return 0;
}
int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_MADE_UP";
  return 0;
}
int cuptiActivityEnable(uint32_t) { return Mode() == "denied" ? kNoPrivileges : 0; }
int cuptiActivityDisable(uint32_t) { return 0; }
int cuptiActivityRegisterCallbacks(void (*on_request)(uint8_t**, size_t*, size_t*),
                                   void (*on_complete)(void*, uint32_t, uint8_t*, size_t, size_t)) {
  request = on_request;
  complete = on_complete;
  return 0;
}
int cuptiActivityFlushAll(uint32_t) {
  uint8_t* buffer = nullptr;
  size_t bytes = 0, most = 0;
  request(&buffer, &bytes, &most);
  if (buffer == nullptr || bytes < 3 * kRecordBytes) return 1;
  Record(buffer, 10, 2000, 2700, "second");
  Record(buffer + kRecordBytes, 1, 5, 6, "no kernel");
  Record(buffer + 2 * kRecordBytes, 10, 1000, 1500, "first");
  complete(nullptr, 0, buffer, bytes, Mode() == "late" ? 3 * kRecordBytes : kRecordBytes);
  return 0;
}
int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = Mode() == "lost" ? 3 : 0;
  return 0;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  *record = *record == nullptr ? buffer : *record + kRecordBytes;
  return *record + kRecordBytes > buffer + valid ? kNoMoreRecords : 0;
}

}  // extern "C"
