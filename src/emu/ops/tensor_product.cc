// tcgen05.mma: products of matrices in shared and tensor memory.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/core/op_profile.h"
#include "emu/core/tensor_memory.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/ops/handlers.h"
#include "emu/ops/tensor_operands.h"
#include "emu/sync/async.h"
#include "emu/sync/tensor_memory.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kDepthBytes = 32;  // of a product, along k
// Of the address of factors, whose upper bits name a byte.
constexpr uint32_t kByteMask = 0x3fffffffu;

/// The matrix A or B in shared memory.
bool ReadOperand(const Issued& issued, uint64_t bits, uint32_t lines, MatrixType type,
                 bool transposed, TensorMatrix* matrix) {
  if (!ReadDescriptor(issued, bits, &matrix->matrix)) return false;
  matrix->lines = lines;
  matrix->line_bytes = kDepthBytes;
  matrix->element_bytes = BitsOf(type) / 8;
  matrix->transposed = transposed;
  const bool has_larger_atom = matrix->matrix.atom == MatrixDescriptor::kLargerAtom;
  if (has_larger_atom != (transposed && type == MatrixType::kTF32)) {
    return issued.Illegal(
        has_larger_atom ? "The swizzling mode with atoms of 32 bytes is only for transposed "
                          "matrices of kind::tf32."
                        : "Transposed matrices of kind::tf32 need the swizzling mode with atoms of "
                          "32 bytes.");
  }
  return CheckMatrix(issued, *matrix);
}

/// The groups of 16 lanes that `lines` lines fill.
uint32_t GroupsOf(uint32_t lines, uint32_t first_lane) {
  return lines == kTensorLanes ? 0xffu : 0x55u << first_lane / 16;
}

bool CheckLane(const Issued& issued, const TensorInstruction& instruction, TensorCell cell) {
  if (cell.lane == 0 || (instruction.lines == 64 && cell.lane == 16)) return true;
  return issued.Illegal(fmt::format(
      "A matrix of {} lines must start at lane {} of tensor memory. Its address names lane {}.",
      instruction.lines, instruction.lines == 64 ? "0 or 16" : "0", cell.lane));
}

/// A in tensor memory: a line has 8 words.
std::vector<std::byte> ReadLeft(TensorMemory& memory, const TensorProduct& product,
                                TensorCell cell) {
  std::vector<std::byte> blocks(size_t{product.lines} * kDepthBytes);
  for (uint32_t line = 0; line < product.lines; ++line) {
    const uint32_t lane = product.LaneOf(line / 16 * 16) + line % 16;
    for (uint32_t word = 0; word < kDepthBytes / 4; ++word) {
      std::memcpy(blocks.data() + (line / 8 * 2 + word / 4) * kBlockBytes +
                      line % 8 * kMatrixPiece + word % 4 * 4,
                  memory.Column(cell.column + word) + lane, 4);
    }
  }
  return blocks;
}

/// The factors of the lines of A or B: 32 lines in a column, in the lanes of each quarter. Returns
/// false after an error.
bool ReadScales(const Issued& issued, const TensorInstruction& instruction, uint32_t scales,
                bool left, std::vector<double>* factors) {
  const int32_t slot = ListOf(issued.warp, issued.op)[left ? kTensorScaleA : kTensorScaleB];
  const TensorCell at =
      TensorAddress(At<const uint32_t>(issued.warp, slot)[issued.lane] & kByteMask);
  if (at.lane != 0) {
    return issued.Illegal(
        fmt::format("Factors must start at lane 0 of tensor memory, not at lane {}.", at.lane));
  }
  const uint32_t lines = left ? instruction.lines : instruction.columns;
  if (!issued.memory.Read(issued.warp, {0xffu, at.column, (lines + 31) / 32})) return false;
  const uint32_t first = left ? instruction.scale_a : instruction.scale_b;
  for (uint32_t line = 0; line < lines; ++line) {
    // The processors of a quarter of D's lanes read the factors of A in these lanes.
    const uint32_t lane = left ? line : line % 32;
    const uint32_t word = issued.memory.Column(at.column + line / 32)[lane];
    for (uint32_t i = 0; i < scales; ++i) {
      const auto bits = static_cast<uint8_t>(word >> 8 * (first + i));
      factors->push_back(!instruction.scales_are_powers
                             ? std::fabs(Float8ToFloat(DType::kF8E4M3, bits))
                         : bits == 0xff ? std::numeric_limits<double>::quiet_NaN()
                                        : std::ldexp(1.0, bits - 127));
    }
  }
  return true;
}

bool MultiplyMatrices(const Issued& issued) {
  Warp& warp = issued.warp;
  const Op* op = issued.op;
  const int lane = issued.lane;
  const int32_t* slots = ListOf(warp, op);
  const auto word = [&](size_t operand) { return At<const uint32_t>(warp, slots[operand])[lane]; };
  const TensorMultiply multiply = TensorMultiply::Unpack(op->aux);
  TensorInstruction instruction;
  if (!ReadInstruction(issued, multiply, word(kTensorInstruction), &instruction)) return false;
  TensorProduct product;
  product.a = instruction.a;
  product.b = instruction.b;
  product.d = instruction.d;
  product.lines = instruction.lines;
  product.columns = instruction.columns;
  product.negates = instruction.negates;
  product.saturates = instruction.saturates;
  product.accumulates = (MaskAt(warp, slots[kTensorAccumulates]) >> lane & 1u) != 0;
  product.shift = multiply.shift;
  product.scales = multiply.scales;
  product.parts = instruction.of_a == Packing::kNibbles ? 4 : 2;
  for (size_t i = 0; i < 4 && slots[kTensorDisabled] >= 0; ++i) {
    product.disabled[i] = word(kTensorDisabled + i);
  }
  // Operands in shared memory.
  std::vector<TensorMatrix> shared;
  const bool in_tensor_memory = slots[kTensorA] < 0;
  for (const bool left : {true, false}) {
    if (left && in_tensor_memory) continue;
    TensorMatrix& matrix = shared.emplace_back();
    const uint64_t bits = At<const uint64_t>(warp, slots[left ? kTensorA : kTensorB])[lane];
    if (!ReadOperand(issued, bits, left ? product.lines : product.columns,
                     left ? product.a : product.b,
                     left ? instruction.transposes_a : instruction.transposes_b, &matrix)) {
      return false;
    }
  }
  // Tensor memory.
  TensorMemory& memory = issued.memory;
  const TensorCell d = TensorAddress(word(kTensorD));
  if (!CheckLane(issued, instruction, d)) return false;
  memory.Issue(warp, op, lane, TensorCompletion::kCommit);
  std::vector<std::byte> a_blocks;
  if (in_tensor_memory) {
    const TensorCell a = TensorAddress(word(kTensorAMemory));
    if (!CheckLane(issued, instruction, a)) return false;
    if (instruction.transposes_a) {
      return issued.Illegal("A matrix A in tensor memory cannot be transposed.");
    }
    if (instruction.of_a != Packing::kPlain && instruction.of_a != Packing::kNibbles) {
      return issued.Unsupported("tcgen05.mma with floats of 6 or 4 bits in tensor memory");
    }
    product.first_lane = a.lane;
    if (!memory.Read(warp, {GroupsOf(product.lines, a.lane), a.column, kDepthBytes / 4})) {
      return false;
    }
    a_blocks = ReadLeft(memory, product, a);
  } else {
    a_blocks = ReadBlocks(warp, shared.front());
  }
  std::vector<double> left_scales, right_scales;
  if (multiply.scales != 0 &&
      (!ReadScales(issued, instruction, multiply.scales, true, &left_scales) ||
       !ReadScales(issued, instruction, multiply.scales, false, &right_scales))) {
    return false;
  }
  product.left_scales = left_scales.data();
  product.right_scales = right_scales.data();
  product.first_lane = d.lane;
  const TensorRegion region{GroupsOf(product.lines, d.lane), d.column, product.columns};
  if (product.accumulates && !memory.Read(warp, region)) return false;
  if (!memory.Write(warp, region)) return false;
  if (warp.checking) memory.ReadsShared(warp, shared);
  std::vector<std::byte> b_blocks = ReadBlocks(warp, shared.back());
  Unpack(instruction.of_a, &a_blocks);
  Unpack(instruction.of_b, &b_blocks);
  product.left = a_blocks.data();
  product.right = b_blocks.data();
  product.cells = memory.Column(d.column);
  warp.worker->launch->code->handlers->tensor_product(product);
  if (warp.counting) {  // 32 bytes along k take as long for all types
    warp.worker->profile->tensor_operations += uint64_t{2} * 16 * product.lines * product.columns;
  }
  return true;
}

}  // namespace

void RegisterTensorProducts(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@tcgen05.mma", &ForEachThread<&MultiplyMatrices>);
}

}  // namespace cupel::emu
