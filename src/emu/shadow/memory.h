// Shadows of global memory: a sparse mirror of the arena with one cell for each granule of 16 bits.
// Only written parts are mapped. Made for one run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "emu/core/memory.h"
#include "emu/shadow/field.h"
#include "emu/shadow/sites.h"

namespace cupel::emu {

/// What a shadow describes. kShort to kLong are integers: flags without a value. kSingle0 to
/// kDouble3 are 16-bit pieces of a split float, lowest first; each has the whole float's exact
/// value (shadow_pieces.h). kSign is only the sign bit of a float with that exact value. kPair is
/// two floats of 8 bits (shadow_small.h); a half of it is NaN if only its value is known.
enum class ShadowKind : uint32_t {
  kNone,
  kHalf,
  kBrain,
  kSingle,
  kDouble,
  kShort,
  kWord,
  kLong,
  kSingle0,
  kSingle1,
  kDouble0,
  kDouble1,
  kDouble2,
  kDouble3,
  kSign,
  kPair
};
inline bool IsPiece(ShadowKind kind) { return kind >= ShadowKind::kSingle0; }
inline bool IsFloatKind(ShadowKind kind) {
  return (kind != ShadowKind::kNone && kind <= ShadowKind::kDouble) || IsPiece(kind);
}
inline constexpr uint32_t kKindMask = 0xf;
/// An earlier operation replaced the shadow by the value: integer arithmetic on a float's bits,
/// rounding to an integer, or an instruction that is not followed.
inline constexpr uint32_t kReset = 0x10;
/// An earlier decision depended on a float, and exact arithmetic may decide differently.
inline constexpr uint32_t kDecision = 0x20;
/// An earlier operation rounded to a float of 8 bits: so few digits that the task may mean them.
inline constexpr uint32_t kSmall = 0x80;
/// The places in the program that set the flags, one bit each (shadow_sites.h). Set only with
/// kReset, kDecision or kSmall.
inline constexpr uint32_t kSites = 0xffffff00;
inline constexpr uint32_t kCauses = kReset | kDecision | kSmall;
inline constexpr uint32_t kFlags = kCauses | kSites;
/// In results: the exact value is the value that the op writes.
inline constexpr uint32_t kTakeValue = 0x40;

inline ShadowKind KindOf(uint32_t state) { return static_cast<ShadowKind>(state & kKindMask); }
inline uint32_t StateOf(ShadowKind kind, uint32_t flags = 0) {
  return static_cast<uint32_t>(kind) | flags;
}
/// Granules that a kind covers.
inline int GranulesOf(ShadowKind kind) {
  switch (kind) {
    case ShadowKind::kSingle:
    case ShadowKind::kWord:
      return 2;
    case ShadowKind::kDouble:
    case ShadowKind::kLong:
      return 4;
    default:
      return 1;
  }
}

struct Cell {
  double exact = 0;
  uint32_t bits = 0;   // the bits that it is valid for
  uint32_t state = 0;  // kind and flags
};

/// Folds 64 bits to 32, so that all kinds need the same space.
inline uint32_t FoldBits(uint64_t bits) {
  return static_cast<uint32_t>(bits) ^ (static_cast<uint32_t>(bits >> 32) * 0x9e3779b1u);
}
/// The bits that a shadow of `kind` at granule `at` of `bits` is tied to.
inline uint32_t TiedBits(ShadowKind kind, uint64_t bits, int at) {
  const uint64_t from = bits >> (16 * at);
  switch (GranulesOf(kind)) {
    case 4:
      return FoldBits(bits);
    case 2:
      return static_cast<uint32_t>(from);
    default:
      return static_cast<uint32_t>(from & 0xffffu);
  }
}

struct Shadow {
  double exact = 0;
  uint32_t flags = 0;
};
/// The shadow of a number that no operation has made. `field`: null for real numbers.
inline double LeafOf(const Field* field, double value) {
  return field == nullptr ? value : field->Leaf(value);
}
/// The shadow of the float of `dtype` that begins at granule `at` of `bits`. All cells must be
/// valid. Integers give flags.
Shadow DecodeShadow(const Field* field, DType dtype, uint64_t bits, const Cell* cells, int granules,
                    int at);
/// What remains of a pair of 8-bit floats at granule `at` if its bits have changed: a reset.
Cell LostPair(const Cell& pair, uint64_t bits, int at);
/// Removes cells that are not valid for `bits`.
void DropStale(uint64_t bits, Cell* cells, int granules);
double ValueOfBits(DType dtype, uint64_t bits);

class ShadowMemory {
 public:
  /// `base` is the device address at which the arena begins. `field`: what shadows are elements of;
  /// null for real numbers. Borrowed.
  static Result<std::unique_ptr<ShadowMemory>> Create(uint64_t base, const Field* field = nullptr);
  ~ShadowMemory();
  ShadowMemory(const ShadowMemory&) = delete;
  ShadowMemory& operator=(const ShadowMemory&) = delete;

  const Field* field() const { return field_; }

  /// The unit of Touch, in bytes of device memory.
  static constexpr uint64_t kPageBytes = uint64_t{1} << 16;

  /// The cell of a device address. Writers must call Touch.
  Cell* At(uint64_t device) const { return cells_ + (device - base_) / 2; }
  bool Touched(uint64_t device) const {
    return __atomic_load_n(touched_ + (device - base_) / kPageBytes, __ATOMIC_RELAXED) != 0;
  }
  void Touch(uint64_t device, uint64_t bytes);

  /// Copies like memmove: ranges may overlap.
  void Copy(uint64_t to, uint64_t from, uint64_t bytes);
  void Clear(uint64_t to, uint64_t bytes);
  /// The shadow of an element in memory that was read as `bits`.
  Shadow Read(uint64_t device, DType dtype, uint64_t bits) const;
  void Write(uint64_t device, DType dtype, uint64_t bits, const Shadow& shadow);
  /// To hold while the cell of a byte is changed: other threads may store the other byte.
  std::mutex& ByteMutex(uint64_t device) { return byte_mutexes_[device / 2 % kByteMutexes]; }
  /// Records a store whose address depends on rounding.
  void DoubtPlaces() { places_in_doubt_.store(true, std::memory_order_relaxed); }
  bool places_in_doubt() const { return places_in_doubt_.load(std::memory_order_relaxed); }
  /// Declares that this memory has numbers that no kernel has computed: inputs. `are_floats`: of
  /// float32.
  void HoldsInput(uint64_t device, uint64_t bytes, bool are_floats) {
    (are_floats ? floats_ : others_).emplace_back(device, bytes);
  }
  bool AreFloats(uint64_t device) const { return Holds(floats_, device); }
  bool HasOthers() const { return !others_.empty(); }
  /// True for inputs of another type.
  bool AreOthers(uint64_t device) const { return Holds(others_, device); }
  /// The sites of the whole run.
  ShadowSites& sites() { return sites_; }
  const ShadowSites& sites() const { return sites_; }

 private:
  static constexpr size_t kByteMutexes = 64;
  std::array<std::mutex, kByteMutexes> byte_mutexes_;
  /// Read and Write of a float8.
  Shadow ReadByte(uint64_t device, DType dtype, uint64_t bits) const;
  void WriteByte(uint64_t device, uint64_t bits, const Shadow& shadow);
  ShadowMemory(uint64_t base, const Field* field) : base_(base), field_(field) {}
  /// The start of the page after that of `device`.
  uint64_t NextPage(uint64_t device) const {
    return base_ + ((device - base_) / kPageBytes + 1) * kPageBytes;
  }

  uint64_t base_;
  const Field* field_;
  Cell* cells_ = nullptr;
  uint8_t* touched_ = nullptr;  // for each 64 KiB
  ShadowSites sites_;
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;  // device addresses and bytes
  static bool Holds(const Ranges& ranges, uint64_t device) {
    for (const auto& [begin, bytes] : ranges) {
      if (device - begin < bytes) return true;
    }
    return false;
  }
  Ranges floats_, others_;  // inputs
  std::atomic<bool> places_in_doubt_{false};
};

}  // namespace cupel::emu
