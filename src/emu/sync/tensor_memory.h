// Tensor memory of a block (sm_100a), and the tcgen05 operations that use it.
//
// Operations compute their values when they are issued, and are checked until they are complete
// (ADR 22). Products and copies execute in the order of issue, on one pipeline; they are complete
// when the mbarrier of a later tcgen05.commit of the same thread completes its phase. Loads and
// stores are complete after tcgen05.wait of their warp. Every other order between two accesses to a
// cell needs the completion of the first, and that the thread of the second knows of it: a warp
// observes the completion when its wait returns, and others when they are ordered after that.
//
// The checks distinguish columns and groups of 16 lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emu/core/op.h"
#include "emu/core/tensor_memory.h"
#include "emu/core/warp.h"
#include "emu/core/warpgroup.h"

namespace cupel::emu {

/// How a thread learns that an operation is complete.
enum class TensorCompletion : uint8_t { kCommit, kLoadWait, kStoreWait };

/// Lanes and columns of tensor memory.
struct TensorRegion {
  uint32_t groups = 0;  // a bit for each 16 lanes
  uint32_t first = 0, columns = 0;
};

/// A matrix that an operation reads from shared memory, in pieces of 16 bytes.
struct TensorMatrix {
  MatrixDescriptor matrix{0};
  uint32_t lines = 0;
  uint32_t line_bytes = 32;     // along k
  uint32_t element_bytes = 16;  // only if transposed
  bool transposed = false;

  uint32_t pieces() const {
    const uint32_t of_piece = transposed ? 16 / element_bytes : 1;  // lines
    return (lines + of_piece - 1) / of_piece * of_piece * line_bytes / 16;
  }
  uint32_t depth() const { return line_bytes / element_bytes; }
  /// The first line of a piece, and its byte along k.
  uint32_t LineOf(uint32_t piece) const {
    return transposed ? piece / depth() * (16 / element_bytes) : piece / (line_bytes / 16);
  }
  uint32_t ByteOf(uint32_t piece) const {
    return transposed ? piece % depth() * element_bytes : piece % (line_bytes / 16) * 16;
  }
  uint32_t OffsetOf(uint32_t piece) const {
    return transposed
               ? matrix.OfColumns(LineOf(piece), ByteOf(piece) / element_bytes, element_bytes)
               : matrix.OfLines(LineOf(piece), ByteOf(piece));
  }
};
/// Calls f(offsets, active) for the pieces, at most 32 at a time, until it returns false.
template <class F>
bool ForEachPiece(const TensorMatrix& matrix, F f) {
  for (uint32_t first = 0; first < matrix.pieces(); first += kLanes) {
    const uint32_t count = matrix.pieces() - first < kLanes ? matrix.pieces() - first : kLanes;
    uint32_t offsets[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) offsets[i] = matrix.OffsetOf(first + (i < count ? i : 0));
    if (!f(offsets, count == kLanes ? kFullMask : (1u << count) - 1)) return false;
  }
  return true;
}

class TensorMemory {
 public:
  TensorMemory(size_t warps, uint32_t poison);

  /// The words of a column, by lane. Valid while `column` is less than kTensorColumns.
  uint32_t* Column(uint32_t column) { return cells_.data() + size_t{column} * kTensorLanes; }

  /// Returns the first column, or nothing if there is not enough memory.
  std::optional<uint32_t> Allocate(const Warp& warp, const Op* op, uint32_t columns);
  /// Frees an allocation. Returns false after an error.
  bool Free(Warp& warp, const Op* op, uint32_t address, uint32_t columns);
  bool may_allocate() const { return may_allocate_; }
  void Relinquish() { may_allocate_ = false; }
  /// The block has ended. Returns false after an error: memory was not freed.
  bool CheckFreed(Warp& last) const;

  /// A lane of the warp issues an operation. Returns its number.
  uint32_t Issue(const Warp& warp, const Op* op, int lane, TensorCompletion completion);
  /// The last operation, which `warp` has just issued, accesses a region. Returns false after an
  /// error.
  bool Read(Warp& warp, const TensorRegion& region) { return Access(warp, region, false); }
  bool Write(Warp& warp, const TensorRegion& region) { return Access(warp, region, true); }
  /// The last operation reads matrices from shared memory until it is complete. Only with checks.
  void ReadsShared(const Warp& warp, const std::vector<TensorMatrix>& matrices);

  /// The last operation of a thread that tcgen05.commit completes; 0: none.
  uint32_t LastOf(uint32_t thread) const;
  /// The operations of the thread up to `number` are complete. `waiter` is the warp that waits for
  /// them and gets the findings. Returns false after an error.
  bool Complete(Warp& waiter, uint32_t thread, uint32_t number);
  /// The warp has waited for them.
  void Observe(const Warp& warp, uint32_t thread, uint32_t number);
  /// The warp's later events come after the reads of these operations, which others may have
  /// checked.
  void Follow(const Warp& warp, uint32_t thread, uint32_t number);
  /// tcgen05.wait::ld or ::st.
  void Wait(const Warp& warp, TensorCompletion completion);
  /// tcgen05.fence::after_thread_sync.
  void Fence(const Warp& warp);

 private:
  struct Operation {
    const Op* op = nullptr;
    uint32_t thread = 0;
    uint32_t clock = 0;  // of the warp at the issue
    TensorCompletion completion = TensorCompletion::kCommit;
    bool frees = false;

    uint32_t warp() const { return thread / kLanes; }
  };
  /// Matrices in shared memory that an operation in progress reads.
  struct Reading {
    uint32_t number = 0, thread = 0;
    std::vector<TensorMatrix> matrices;
    std::array<uint32_t, kLanes> seen{};  // WarpClock::seen at the issue
  };
  struct Allocation {
    uint32_t first = 0, columns = 0;
    const Op* op = nullptr;
    uint32_t warp = 0;
  };
  /// The numbers of the last operations that accessed a group of lanes of a column; 0: none.
  struct Uses {
    uint32_t writer = 0, product = 0, loader = 0;  // `product` reads it
  };
  /// A warp checked, and thereby read, the matrices of a thread's operations from number `first`
  /// on, at the latest at `clock`.
  struct Reader {
    uint32_t first = 0, clock = 0;
  };
  /// A warp knows at `clock` that all operations of a source up to `number` are complete.
  struct Observation {
    uint32_t number = 0, clock = 0;
  };
  /// The operations that complete together: those of a thread, or loads or stores of a warp.
  using Source = std::pair<TensorCompletion, uint32_t>;
  static Source SourceOf(const Operation& operation);
  enum class Order : uint8_t { kOrdered, kNotFenced, kInProgress, kNotSynchronized };

  bool Access(Warp& warp, const TensorRegion& region, bool write);
  bool CheckAllocated(Warp& warp, const Operation& mine, const TensorRegion& region) const;
  Order OrderOf(const Warp& warp, uint32_t earlier, const Operation& mine) const;
  bool CheckOrder(Warp& warp, uint32_t earlier, uint32_t column, bool writes, bool wrote,
                  uint32_t* ordered) const;
  void Observe(const Warp& warp, Source source, uint32_t number);

  std::vector<uint32_t> cells_;  // [column][lane]
  std::vector<Uses> uses_;       // [column][group]; empty without checks
  std::vector<Allocation> allocations_;
  std::vector<Operation> operations_;  // by number; the first is unused
  std::deque<Reading> readings_;
  std::map<uint32_t, std::map<uint32_t, Reader>> readers_;            // by thread, and warp
  std::vector<std::map<Source, std::vector<Observation>>> observed_;  // by warp
  std::vector<std::array<uint32_t, kLanes>> fenced_;  // by warp: its clocks at its last fence
  std::map<uint32_t, uint32_t> last_;                 // by thread, of operations to commit
  uint32_t poison_ = 0;
  bool may_allocate_ = true;
};

}  // namespace cupel::emu
