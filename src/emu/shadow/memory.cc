// SPDX-License-Identifier: Apache-2.0
#include "emu/shadow/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/shadow/pieces.h"
#include "emu/shadow/small.h"

namespace cupel::emu {
namespace {

constexpr uint64_t kCellBytes = kReservedBytes / 2 * sizeof(Cell);
constexpr uint64_t kPages = kReservedBytes / ShadowMemory::kPageBytes;

void* ReserveBytes(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

ShadowKind KindFor(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return ShadowKind::kHalf;
    case DType::kBF16:
      return ShadowKind::kBrain;
    case DType::kF32:
      return ShadowKind::kSingle;
    case DType::kF64:
      return ShadowKind::kDouble;
    case DType::kI64:
      return ShadowKind::kLong;
    case DType::kI32:
      return ShadowKind::kWord;
    default:
      return ShadowKind::kShort;
  }
}

}  // namespace

double ValueOfBits(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kF16:
      return HalfToFloat(static_cast<uint16_t>(bits));
    case DType::kBF16:
      return BFloat16ToFloat(static_cast<uint16_t>(bits));
    case DType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF8E5M2:
    case DType::kF8E4M3:
      return Float8ToFloat(dtype, static_cast<uint8_t>(bits));
    default:
      return static_cast<double>(static_cast<int64_t>(bits));
  }
}

Cell LostPair(const Cell& pair, uint64_t bits, int at) {
  return {0, TiedBits(ShadowKind::kShort, bits, at),
          StateOf(ShadowKind::kShort, (pair.state & kFlags) | kReset)};
}

void DropStale(uint64_t bits, Cell* cells, int granules) {
  for (int g = 0; g < granules; ++g) {
    const ShadowKind kind = KindOf(cells[g].state);
    if (kind == ShadowKind::kNone) continue;
    if (g + GranulesOf(kind) <= granules && TiedBits(kind, bits, g) == cells[g].bits) continue;
    if (kind == ShadowKind::kPair) {  // one byte may have been stored without the other
      cells[g] = LostPair(cells[g], bits, g);
    } else {
      cells[g].state = 0;
    }
  }
}

Shadow DecodeShadow(const Field* field, DType dtype, uint64_t bits, const Cell* cells, int granules,
                    int at) {
  const ShadowKind want = KindFor(dtype);
  const int size = std::min(GranulesOf(want), granules - at);
  const uint64_t own = size == 4 ? bits : (bits >> (16 * at)) & ((uint64_t{1} << (16 * size)) - 1);
  const bool is_float = IsFloatKind(want);
  if (is_float && KindOf(cells[at].state) == want) {
    return {cells[at].exact, cells[at].state & kFlags};
  }
  // A bfloat16 above zero bits is the float32 of the same value.
  if (want == ShadowKind::kSingle && cells[at].state == 0 &&
      KindOf(cells[at + 1].state) == ShadowKind::kBrain && (own & 0xffffu) == 0) {
    return {cells[at + 1].exact, cells[at + 1].state & kFlags};
  }
  Shadow shadow;
  if (TruncatedFloat(want, own, cells, granules, at, &shadow)) return shadow;
  shadow.exact = LeafOf(field, ValueOfBits(dtype, own));
  // Other cells here belong to values of another type. That is a reset, unless they are integers.
  for (int g = 0; g < granules; ++g) {
    const ShadowKind kind = KindOf(cells[g].state);
    if (kind == ShadowKind::kNone) continue;
    if (g + GranulesOf(kind) <= at || g >= at + size) continue;
    shadow.flags |= cells[g].state & kFlags;
    if (IsFloatKind(kind)) shadow.flags |= kReset;
  }
  return shadow;
}

Result<std::unique_ptr<ShadowMemory>> ShadowMemory::Create(uint64_t base, const Field* field) {
  std::unique_ptr<ShadowMemory> memory(new ShadowMemory(base, field));
  memory->cells_ = static_cast<Cell*>(ReserveBytes(kCellBytes));
  memory->touched_ = static_cast<uint8_t*>(ReserveBytes(kPages));
  if (memory->cells_ == nullptr || memory->touched_ == nullptr) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("cannot reserve {} GiB of address space for shadows: {}",
                            kCellBytes >> 30, std::strerror(errno)),
                "raise the limit on virtual memory (ulimit -v)");
  }
  // Only advice: writes are mostly dense, and small pages cost time.
  madvise(memory->cells_, kCellBytes, MADV_HUGEPAGE);
  return memory;
}

ShadowMemory::~ShadowMemory() {
  if (cells_ != nullptr) munmap(cells_, kCellBytes);
  if (touched_ != nullptr) munmap(touched_, kPages);
}

void ShadowMemory::Touch(uint64_t device, uint64_t bytes) {
  const uint64_t first = (device - base_) / kPageBytes;
  const uint64_t last = (device - base_ + std::max<uint64_t>(bytes, 1) - 1) / kPageBytes;
  for (uint64_t page = first; page <= last; ++page) {
    if (__atomic_load_n(touched_ + page, __ATOMIC_RELAXED) == 0) {
      __atomic_store_n(touched_ + page, uint8_t{1}, __ATOMIC_RELAXED);
    }
  }
}

void ShadowMemory::Clear(uint64_t to, uint64_t bytes) {
  for (uint64_t at = to; at < to + bytes;) {
    const uint64_t next = std::min(to + bytes, NextPage(at));
    if (Touched(at)) {
      std::fill(At(at), At(next - 1) + 1, Cell{});
    }
    at = next;
  }
}

void ShadowMemory::Copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return;
  bool any = false;
  for (uint64_t at = from; at < from + bytes; at = NextPage(at)) any |= Touched(at);
  // Copies at odd addresses do not move floats.
  if (!any || ((to | from) & 1u) != 0) {
    Clear(to, bytes);
    return;
  }
  Touch(to, bytes);
  std::memmove(At(to), At(from), (bytes + 1) / 2 * sizeof(Cell));
}

Shadow ShadowMemory::Read(uint64_t device, DType dtype, uint64_t bits) const {
  const bool may_have_cell = Touched(device);
  if (may_have_cell && IsFloat8(dtype)) return ReadByte(device, dtype, bits);
  if (!may_have_cell || (device & 1u) != 0) return {LeafOf(field_, ValueOfBits(dtype, bits)), 0};
  const int granules = std::max(1, SizeOf(dtype) / 2);
  Cell cells[4];
  std::copy_n(At(device), granules, cells);
  DropStale(bits, cells, granules);
  JoinPieces(cells, granules);
  return DecodeShadow(field_, dtype, bits, cells, granules, 0);
}

void ShadowMemory::Write(uint64_t device, DType dtype, uint64_t bits, const Shadow& shadow) {
  const int size = SizeOf(dtype);
  if (IsFloat8(dtype)) return WriteByte(device, bits, shadow);
  if (size < 2 || (device & 1u) != 0) return;
  Touch(device, static_cast<uint64_t>(size));
  Cell* cells = At(device);
  std::fill(cells, cells + size / 2, Cell{});
  const ShadowKind kind = KindFor(dtype);
  if (!IsFloatKind(kind) && shadow.flags == 0) return;
  cells[0] = {shadow.exact, TiedBits(kind, bits, 0), StateOf(kind, shadow.flags)};
}

Shadow ShadowMemory::ReadByte(uint64_t device, DType dtype, uint64_t bits) const {
  Shadow shadow{LeafOf(field_, ValueOfBits(dtype, bits)), 0};
  for (const uint64_t size : {2u, 4u, 8u}) {
    const uint64_t start = device & ~(size - 1);
    const Cell& cell = *At(start);
    const ShadowKind kind = KindOf(cell.state);
    if (kind == ShadowKind::kNone) continue;
    if (device - start >= 2 * static_cast<uint64_t>(GranulesOf(kind))) continue;
    if (kind == ShadowKind::kPair && IsTiedToByte(cell, device, bits)) {
      if (field_ != nullptr) return {shadow.exact, kReset};
      SmallPair pair = UnpackPair(cell.exact);
      return HalfOf(HalfAt(pair, device), shadow.exact, cell.state & kFlags);
    }
    shadow.flags |= (cell.state & kFlags) | (IsFloatKind(kind) ? kReset : 0);
  }
  return shadow;
}

void ShadowMemory::WriteByte(uint64_t device, uint64_t bits, const Shadow& shadow) {
  Touch(device, 1);
  Cell& cell = *At(device & ~uint64_t{1});
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  const bool is_pair = KindOf(cell.state) == ShadowKind::kPair;
  SmallPair pair = is_pair ? UnpackPair(cell.exact) : SmallPair{kUnknown, kUnknown};
  HalfAt(pair, device) = static_cast<float>(shadow.exact);
  const uint32_t shift = 8 * (device & 1u);
  const uint32_t other = (is_pair ? cell.bits : 0) & (0xff00u >> shift);
  const uint32_t flags = (is_pair ? cell.state & kFlags : 0) | shadow.flags;
  cell = {PackPair(pair), other | static_cast<uint32_t>(bits & 0xffu) << shift,
          StateOf(ShadowKind::kPair, flags)};
}

}  // namespace cupel::emu
