// Tested by one_shot_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/cupti.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/parse_number.h"
#include "gpu/library.h"

namespace cupel::gpu {
namespace {
namespace fs = std::filesystem;

using CuptiResult = int;
constexpr CuptiResult kNoMoreRecords = 12;  // CUPTI_ERROR_MAX_LIMIT_REACHED
constexpr CuptiResult kNoPrivileges = 35, kManySubscribers = 39, kVirtualNoPrivileges = 40;
// CUpti_ActivityKind
constexpr uint32_t kKernelKind = 3, kConcurrentKernelKind = 10;
// The first members of CUpti_ActivityKernel5 and all later versions (CUDA 11 and later) are equal.
constexpr size_t kStartAt = 16, kEndAt = 24, kNameAt = 104;
constexpr uint32_t kOldestVersion = 14;  // CUPTI_API_VERSION of CUDA 11.1
constexpr size_t kBufferBytes = 4u << 20, kBufferAlignment = 8;

/// Global, because CUPTI's callbacks have no parameter for a context.
struct Collected {
  std::mutex mutex;
  std::vector<KernelTime> kernels;
  std::string error;  // the first one
  CuptiResult (*next)(uint8_t*, size_t, uint8_t**) = nullptr;
  std::atomic<bool> in_use = false;
};
Collected& All() {
  static Collected& all = *new Collected;  // CUPTI's threads may outlive main
  return all;
}

template <typename T>
T MemberAt(const uint8_t* record, size_t at) {
  T value;
  std::memcpy(static_cast<void*>(&value), record + at, sizeof value);
  return value;
}

extern "C" void CupelCuptiBuffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

extern "C" void CupelCuptiRecords(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Collected& all = All();
  const std::lock_guard lock(all.mutex);
  uint8_t* record = nullptr;
  while (valid > 0 && all.next != nullptr) {
    const CuptiResult result = all.next(buffer, valid, &record);
    if (result == kNoMoreRecords) break;
    if (result != 0) {
      if (all.error.empty()) all.error = fmt::format("reading a record failed: {}", result);
      break;
    }
    const auto kind = MemberAt<uint32_t>(record, 0);
    if (kind != kKernelKind && kind != kConcurrentKernelKind) continue;
    KernelTime time;
    time.start_ns = MemberAt<uint64_t>(record, kStartAt);
    time.end_ns = MemberAt<uint64_t>(record, kEndAt);
    if (const char* name = MemberAt<const char*>(record, kNameAt)) time.name = name;
    all.kernels.push_back(std::move(time));
  }
  std::free(buffer);
}

/// "13.0" sorts above "9.2".
bool Newer(const fs::path& a, const fs::path& b) {
  const auto number = [](const fs::path& path) {
    const std::string name = path.filename().string();
    std::string_view rest = name;
    rest.remove_prefix(std::min(rest.find_first_of("0123456789"), rest.size()));
    return TakeNumber<double>(rest).value_or(0);
  };
  return number(a) > number(b);
}

std::vector<std::string> Candidates() {
  if (const char* named = std::getenv("CUPEL_CUPTI"); named != nullptr && *named != '\0') {
    return {named};
  }
  // Plain names first: the loader searches LD_LIBRARY_PATH and ld.so.conf.
  constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  std::vector<std::string> paths(std::begin(kNames), std::end(kNames));
  std::vector<fs::path> roots;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda-")) roots.push_back(entry.path());
  }
  std::sort(roots.begin(), roots.end(), Newer);
  roots.emplace_back("/usr/local/cuda");
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home == '/') {
    roots.insert(roots.begin(), home);
  }
  for (const fs::path& root : roots) {
    for (const char* folder : {"extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"}) {
      for (const char* name : kNames) paths.push_back((root / folder / name).string());
    }
  }
  return paths;
}

}  // namespace

struct KernelClock::Library {
  CuptiResult (*version)(uint32_t*) = nullptr;
  CuptiResult (*text)(CuptiResult, const char**) = nullptr;
  CuptiResult (*enable)(uint32_t) = nullptr;
  CuptiResult (*disable)(uint32_t) = nullptr;
  CuptiResult (*callbacks)(void (*)(uint8_t**, size_t*, size_t*),
                           void (*)(void*, uint32_t, uint8_t*, size_t, size_t)) = nullptr;
  CuptiResult (*flush)(uint32_t) = nullptr;
  CuptiResult (*dropped)(void*, uint32_t, size_t*) = nullptr;

  /// Null, or the entry point that is missing.
  const char* Resolve(void* handle) {
    EntryPoints entry(handle);
    entry.Find(version, "cuptiGetVersion");
    entry.Find(text, "cuptiGetResultString");
    entry.Find(enable, "cuptiActivityEnable");
    entry.Find(disable, "cuptiActivityDisable");
    entry.Find(callbacks, "cuptiActivityRegisterCallbacks");
    entry.Find(flush, "cuptiActivityFlushAll");
    entry.Find(dropped, "cuptiActivityGetNumDroppedRecords");
    entry.Find(All().next, "cuptiActivityGetNextRecord");
    return entry.missing();
  }

  Status Check(CuptiResult result, const char* what) const {
    if (result == 0) return {};
    const char* name = nullptr;
    if (text(result, &name) != 0 || name == nullptr) name = "unknown error";
    std::string remedy;
    if (result == kNoPrivileges || result == kVirtualNoPrivileges) {
      remedy = "run as root, or load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0";
    } else if (result == kManySubscribers) {
      remedy = "end the other profiler that observes this process";
    }
    return Fail(ErrorCode::kEnvironment,
                fmt::format("CUPTI: {} failed: {} ({})", what, name, result), remedy);
  }
};

KernelClock::KernelClock(std::unique_ptr<Library> library, uint32_t version)
    : library_(std::move(library)), version_(version) {}

Result<std::unique_ptr<KernelClock>> KernelClock::Start() {
  if (All().in_use.exchange(true)) {
    return Fail(ErrorCode::kInternal, "CUPTI is already in use in this process");
  }
  // From here on the object's destructor resets in_use.
  std::unique_ptr<KernelClock> clock(new KernelClock(std::make_unique<Library>(), 0));
  const std::vector<std::string> paths = Candidates();
  void* handle = OpenLibrary(paths);
  if (handle == nullptr) {
    return Fail(ErrorCode::kEnvironment,
                paths.size() == 1 ? fmt::format("cannot load CUPTI from {}", paths[0])
                                  : std::string("CUPTI was not found: there is no libcupti.so"),
                "install the CUDA toolkit's CUPTI, or set CUPEL_CUPTI to the path of libcupti.so");
  }
  Library& library = *clock->library_;
  if (const char* missing = library.Resolve(handle)) {
    library.disable = nullptr;
    return Fail(ErrorCode::kEnvironment,
                fmt::format("this CUPTI is too old: it has no {}", missing),
                "set CUPEL_CUPTI to the libcupti.so of CUDA 12 or later");
  }
  TRY(library.Check(library.version(&clock->version_), "reading its version"));
  if (clock->version_ < kOldestVersion) {
    library.disable = nullptr;
    return Fail(ErrorCode::kEnvironment,
                fmt::format("CUPTI {} is too old: its records differ", clock->version_),
                "set CUPEL_CUPTI to the libcupti.so of CUDA 12 or later");
  }
  TRY(library.Check(library.callbacks(CupelCuptiBuffer, CupelCuptiRecords), "starting"));
  TRY(library.Check(library.enable(kConcurrentKernelKind), "enabling kernel records"));
  return clock;
}

KernelClock::~KernelClock() {
  if (library_->disable != nullptr) library_->disable(kConcurrentKernelKind);
  if (library_->flush != nullptr) library_->flush(1);
  All().in_use = false;
}

Status KernelClock::Begin() {
  TRY(library_->Check(library_->flush(1), "flushing"));
  size_t ignored = 0;  // reading resets it
  library_->dropped(nullptr, 0, &ignored);
  Collected& all = All();
  const std::lock_guard lock(all.mutex);
  all.kernels.clear();
  all.error.clear();
  return {};
}

Result<std::vector<KernelTime>> KernelClock::End() {
  TRY(library_->Check(library_->flush(1), "flushing"));
  size_t lost = 0;
  if (library_->dropped(nullptr, 0, &lost) != 0) lost = 0;
  Collected& all = All();
  const std::lock_guard lock(all.mutex);
  if (!all.error.empty()) return Fail(ErrorCode::kEnvironment, "CUPTI: " + all.error);
  if (lost > 0) return Fail(ErrorCode::kEnvironment, fmt::format("CUPTI lost {} records", lost));
  for (const KernelTime& kernel : all.kernels) {
    if (kernel.start_ns == 0 || kernel.end_ns < kernel.start_ns) {
      return Fail(ErrorCode::kEnvironment, "CUPTI recorded no times for " + kernel.name);
    }
  }
  std::stable_sort(
      all.kernels.begin(), all.kernels.end(),
      [](const KernelTime& a, const KernelTime& b) { return a.start_ns < b.start_ns; });
  return std::exchange(all.kernels, {});
}

}  // namespace cupel::gpu
