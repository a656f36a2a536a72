// What tcgen05.mma and tcgen05.cp read: descriptors, and matrices in shared memory. A single thread
// issues these instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/tensor_memory.h"
#include "emu/core/warp.h"
#include "emu/core/warpgroup.h"
#include "emu/sync/async.h"
#include "emu/sync/tensor_memory.h"

namespace cupel::emu {

inline constexpr uint32_t kMatrixPiece = 16;  // bytes that are neighbours in memory
inline constexpr uint32_t kBlockBytes = 8 * kMatrixPiece;

/// One lane's instruction.
struct Issued {
  Warp& warp;
  const Op* op;
  int lane;
  TensorMemory& memory;

  // Both end the warp and return false.
  bool Illegal(const std::string& why) const;
  bool Unsupported(std::string what) const;
};

/// How elements of A or B are stored. The emulator converts floats of 6 and 4 bits to e4m3.
enum class Packing : uint8_t {
  kPlain,
  kE2M1,    // 16 elements in 8 bytes, and 8 bytes of padding
  kE2M3,    // 16 elements in 12 bytes, and 4 bytes of padding
  kE3M2,    // likewise
  kNibbles  // e2m1, 32 elements in 16 bytes
};

/// What the kind and the instruction descriptor say about a product.
struct TensorInstruction {
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16, d = MatrixType::kF32;
  Packing of_a = Packing::kPlain, of_b = Packing::kPlain;
  uint32_t scale_a = 0, scale_b = 0;  // the byte of a word that has a line's first factor
  bool scales_are_powers = false;     // ue8m0, else ue4m3
  uint32_t lines = 0, columns = 0;
  bool transposes_a = false, transposes_b = false;
  bool negates = false, saturates = false;
};

/// All of these return false after an error.
bool ReadDescriptor(const Issued& issued, uint64_t bits, MatrixDescriptor* matrix);
/// Checks that the pieces are inside of shared memory, and ordered after their writes.
bool CheckMatrix(const Issued& issued, const TensorMatrix& matrix);
bool ReadInstruction(const Issued& issued, const TensorMultiply& multiply, uint32_t bits,
                     TensorInstruction* to);

/// Reads a matrix into blocks of 8 lines of 16 bytes, [line][k].
std::vector<std::byte> ReadBlocks(const Warp& warp, const TensorMatrix& matrix);
/// Floats of 6 and 4 bits become e4m3.
void Unpack(Packing packing, std::vector<std::byte>* blocks);

/// Executes an instruction for each active lane.
template <bool (*Execute)(const Issued&)>
const Op* ForEachThread(Warp& warp, const Op* op) {
  TensorMemory& memory = AsyncOf(warp).TensorOf(warp);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    if (!Execute({warp, op, __builtin_ctz(rest), memory})) return nullptr;
  }
  return op + 1;
}

}  // namespace cupel::emu
