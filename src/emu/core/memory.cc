// Tested by memory_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "base/round_up.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kPage = 4096;
// The gap after a buffer is as large as the buffer, up to this size. An index that is wrong by a
// row, or by a factor of two, then falls between buffers and not in the next one.
constexpr uint64_t kLargestGap = uint64_t{1} << 32;
// Each allocation is also shifted by a random distance of up to this size. The data that shares a
// page thus differs from run to run.
constexpr uint64_t kMostJitter = uint64_t{1} << 20;
// Above these limits, Reset returns pages to the system and does not keep them for the next plan.
// Addresses change from run to run, so the kept pages and mappings would grow without bound.
constexpr uint64_t kKeepCommitted = uint64_t{512} << 20;
constexpr uint64_t kKeepCommits = 4096;
constexpr uint64_t kHugePageThreshold = uint64_t{8} << 20;

uint64_t PhysicalBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<uint64_t>(pages) * kPage : uint64_t{1} << 32;
}

void FillPattern(std::byte* at, uint64_t bytes, uint32_t pattern) {
  uint64_t done = std::min<uint64_t>(bytes, 4096);
  for (uint64_t i = 0; i < done; ++i) {
    at[i] = static_cast<std::byte>(pattern >> (8 * (i % 4)));
  }
  while (done < bytes) {  // doubles the filled part: as fast as memcpy
    const uint64_t step = std::min(done, bytes - done);
    std::memcpy(at + done, at, step);
    done += step;
  }
}

}  // namespace

GlobalMemory::GlobalMemory() = default;

Result<GlobalMemory> GlobalMemory::Create() {
  GlobalMemory memory;
  void* base =
      mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot reserve {} GiB of address space: {}", kReservedBytes >> 30,
                            std::strerror(errno)),
                "raise the limit on virtual memory (ulimit -v)");
  }
  memory.host_ = static_cast<std::byte*>(base);
  memory.SetPoison(0);
  return memory;
}

GlobalMemory::GlobalMemory(GlobalMemory&& other) noexcept { *this = std::move(other); }

GlobalMemory& GlobalMemory::operator=(GlobalMemory&& other) noexcept {
  if (this == &other) return *this;
  Release();
  host_ = std::exchange(other.host_, nullptr);
  base_ = other.base_;
  gaps_ = other.gaps_;
  next_ = std::exchange(other.next_, 0);
  committed_ = std::exchange(other.committed_, 0);
  commits_ = std::exchange(other.commits_, 0);
  poison_ = other.poison_;
  on_demand_ = other.on_demand_;
  heap_next_ = other.heap_next_;
  heap_end_ = other.heap_end_;
  heap_used_ = other.heap_used_;
  heap_taken_ = other.heap_taken_;
  allocations_ = std::move(other.allocations_);
  symbols_ = std::move(other.symbols_);
  watch_ = std::move(other.watch_);
  return *this;
}

GlobalMemory::~GlobalMemory() { Release(); }

void GlobalMemory::Release() noexcept {
  if (host_ != nullptr) munmap(host_, kReservedBytes);
  host_ = nullptr;
}

void GlobalMemory::Move(uint64_t seed) {
  CHECK(allocations_.empty());
  constexpr uint64_t kPlaces =
      (kHighestAddress - kLowestAddress - kReservedBytes) / kBufferAlignment;
  gaps_ = Random(seed).Fork("addresses");
  base_ = kLowestAddress + gaps_.Below(kPlaces) * kBufferAlignment;
}

void GlobalMemory::SetPoison(uint64_t seed, int kind) {
  if (kind != 0) {  // 6.1e4 as float16, 1.3e36 as bfloat16 and float32, 1e286 as float64
    poison_ = kind == 1 ? 0x7b7b7b7bu : 0xfb7bfb7bu;
    return;
  }
  // Each halfword is sign, 0x7ff8 and three payload bits: a quiet NaN as float16 and bfloat16. The
  // words and doublewords that begin with it are quiet NaNs too.
  const uint64_t bits = Random(seed)();
  auto half = [](uint64_t b) { return static_cast<uint32_t>(0x7ff8 | (b & 7) | ((b & 8) << 12)); };
  poison_ = half(bits) | (half(bits >> 4) << 16);
}

Status GlobalMemory::Commit(uint64_t begin, uint64_t end) {
  if (mprotect(host_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot map {} bytes for a device buffer: {}", end - begin,
                            std::strerror(errno)),
                "free memory or use smaller settings");
  }
  if (end - begin >= kHugePageThreshold && !on_demand_) {
    madvise(host_ + begin, end - begin, MADV_HUGEPAGE);  // only advice: failure costs time
  }
  // A store to a huge page would take all of it.
  if (on_demand_) madvise(host_ + begin, end - begin, MADV_NOHUGEPAGE);
  committed_ += end - begin;
  ++commits_;
  return {};
}

Result<uint64_t> GlobalMemory::Allocate(uint64_t bytes, int buffer, bool read_only,
                                        std::string name) {
  const uint64_t zone_begin = next_;
  // Pages are multiples of kBufferAlignment.
  const uint64_t begin =
      zone_begin + kRedZone + gaps_.Below(kMostJitter / kBufferAlignment) * kBufferAlignment;
  if ((!on_demand_ && bytes > PhysicalBytes()) || bytes > kReservedBytes - begin) {
    return Fail(
        ErrorCode::kEnvironment,
        fmt::format("{} needs {} bytes of emulated device memory, more than this machine has", name,
                    bytes),
        "use smaller settings");
  }
  const uint64_t zone_end = RoundUp<uint64_t>(begin + bytes + kRedZone, kPage);
  uint64_t gap =
      std::min(RoundUp<uint64_t>(std::max<uint64_t>(bytes, 1 << 20), kPage), kLargestGap);
  if (on_demand_) gap = RoundUp<uint64_t>(2 * std::max<uint64_t>(bytes, 1 << 20), kPage);
  if (zone_end > kReservedBytes) {
    return Fail(ErrorCode::kEnvironment, "the plan's buffers exceed the emulated address space",
                "use smaller settings");
  }
  const uint64_t first = (begin - kRedZone) / kPage * kPage;
  TRY(Commit(first, zone_end));
  if (!on_demand_) FillPattern(host_ + first, zone_end - first, poison_);
  next_ = std::min(zone_end + gap, kReservedBytes - kRedZone);
  allocations_.push_back({base_ + begin, base_ + begin + bytes, buffer, read_only, true,
                          HeapUse::kNone, std::move(name)});
  if (watch_ && !read_only && bytes != 0) {
    TRY(watch_->Watch(base_ + begin, base_ + begin + bytes));
  }
  return base_ + begin;
}

Result<uint64_t> GlobalMemory::AllocateOnHeap(uint64_t bytes) {
  constexpr uint64_t kUnit = 16, kGap = 64, kChunk = 2 * kHeapBytes, kMost = 64 * kHeapBytes;
  const uint64_t taken = RoundUp<uint64_t>(std::min(bytes, kHeapBytes + 1), kUnit);
  if (bytes == 0 || taken > kHeapBytes - heap_used_) return 0;
  if (heap_end_ - heap_next_ < taken + kGap) {
    if (heap_taken_ + kChunk > kMost) {
      return Fail(
          ErrorCode::kUnsupported,
          fmt::format("kernels that allocate more than {} MB with malloc, one after the other",
                      kMost >> 20),
          "allocate less, or pass workspace to the kernel");
    }
    TRY_ASSIGN(heap_next_, Allocate(kChunk, -1, false, "the heap"));
    heap_end_ = heap_next_ + kChunk;
    heap_taken_ += kChunk;
    allocations_.pop_back();
  }
  const uint64_t begin = heap_next_;
  heap_next_ += taken + kGap;
  heap_used_ += taken;
  const auto after = std::upper_bound(allocations_.begin(), allocations_.end(), begin,
                                      [](uint64_t a, const Allocation& x) { return a < x.begin; });
  allocations_.insert(after, {begin, begin + bytes, -1, false, true, HeapUse::kLive,
                              fmt::format("malloc({})", bytes)});
  return begin;
}

bool GlobalMemory::FreeOnHeap(uint64_t address) {
  auto* allocation = const_cast<Allocation*>(Find(address));
  if (allocation == nullptr || allocation->begin != address || allocation->heap != HeapUse::kLive) {
    return false;
  }
  allocation->heap = HeapUse::kFreed;
  allocation->reachable = false;
  heap_used_ -= RoundUp<uint64_t>(allocation->end - allocation->begin, 16);
  return true;
}

void GlobalMemory::BindSymbol(std::string name, uint64_t address, int image) {
  symbols_[{image, std::move(name)}] = address;
}

std::optional<uint64_t> GlobalMemory::SymbolAddress(std::string_view name, int image) const {
  const auto at = symbols_.find({image, std::string(name)});
  return at == symbols_.end() ? std::nullopt : std::optional(at->second);
}

void GlobalMemory::MarkWritten(uint64_t address, uint64_t bytes) const {
  if (watch_) watch_->MarkWritten(address, bytes);
}

void GlobalMemory::SetReachable(uint64_t address, bool reachable) {
  auto* allocation = const_cast<Allocation*>(Find(address));
  if (allocation != nullptr) allocation->reachable = reachable;
}

/// A new mapping drops the pages and makes the gaps of the old layout inaccessible again.
void GlobalMemory::DropPages() {
  void* fresh = mmap(host_, kReservedBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  CHECK(fresh == host_);
  committed_ = commits_ = 0;
}

void GlobalMemory::OnDemand() {
  CHECK(allocations_.empty());
  DropPages();
  on_demand_ = true;
}

void GlobalMemory::Reset() {
  watch_.reset();
  if (committed_ > kKeepCommitted || commits_ > kKeepCommits || on_demand_) DropPages();
  next_ = 0;
  on_demand_ = false;
  heap_next_ = heap_end_ = heap_used_ = heap_taken_ = 0;
  allocations_.clear();
  symbols_.clear();
}

const Allocation* GlobalMemory::Find(uint64_t address) const {
  auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                [](uint64_t a, const Allocation& x) { return a < x.begin; });
  if (after == allocations_.begin()) return nullptr;
  const Allocation& candidate = *std::prev(after);
  return address < candidate.end ? &candidate : nullptr;
}

bool GlobalMemory::Contains(uint64_t address, uint64_t bytes) const {
  const Allocation* allocation = Find(address);
  return allocation != nullptr && bytes <= allocation->end - address;
}

std::string GlobalMemory::Describe(uint64_t address) const {
  if (address < kBufferAlignment) return fmt::format("null pointer + {} bytes", address);
  if (!IsInArena(address) || allocations_.empty()) {
    return fmt::format("address {:#x}, far from every buffer", address);
  }
  auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                [](uint64_t a, const Allocation& x) { return a < x.begin; });
  const Allocation* before = after == allocations_.begin() ? nullptr : &*std::prev(after);
  if (before != nullptr && address < before->end) {
    return fmt::format("{} + {} bytes", before->name, address - before->begin);
  }
  const bool after_is_nearer =
      after != allocations_.end() &&
      (before == nullptr || after->begin - address < address - before->end);
  if (after_is_nearer) {
    return fmt::format("{} bytes before the start of {}", after->begin - address, after->name);
  }
  // Byte `end` is the first byte outside, so an address equal to it is 0 bytes past the end.
  return fmt::format("{} + {} bytes, {} past its end", before->name, address - before->begin,
                     address - before->end);
}

}  // namespace cupel::emu
