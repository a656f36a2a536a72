// tcgen05.mma and tcgen05.cp: products of matrices in shared and tensor memory, and copies from
// shared to tensor memory. A single thread issues them.
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
#include "emu/sync/async.h"
#include "emu/sync/tensor_memory.h"

namespace cupel::emu {
namespace {

constexpr uint32_t kMatrixPiece = 16;
constexpr uint32_t kDepthBytes = 32;  // of a product, along k
constexpr uint32_t kBlockBytes = 8 * kMatrixPiece;
constexpr uint32_t kByteMask =
    0x3fffffffu;  // of the address of factors, whose upper bits name a byte

/// How elements of A or B are stored. The emulator converts floats of 6 and 4 bits to e4m3.
enum class Packing : uint8_t {
  kPlain,
  kE2M1,    // 16 elements in 8 bytes, and 8 bytes of padding
  kE2M3,    // 16 elements in 12 bytes, and 4 bytes of padding
  kE3M2,    // likewise
  kNibbles  // e2m1, 32 elements in 16 bytes
};

/// The e4m3 of a float with so many bits of exponent and mantissa, and a sign.
uint8_t ToE4M3(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const auto fraction = static_cast<float>(bits & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const float mantissa = fraction / static_cast<float>(1 << mantissa_bits);
  const float value =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1u) != 0;
  return FloatToFloat8(DType::kF8E4M3, negative ? -value : value);
}

/// Converts a piece of 16 bytes to one or two pieces of e4m3.
void Convert(Packing packing, const std::byte* from, std::byte* to) {
  const uint32_t bits = packing == Packing::kE2M3 || packing == Packing::kE3M2 ? 6 : 4;
  for (uint32_t i = 0; i < (packing == Packing::kNibbles ? 32u : 16u); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, from + i * bits / 8, i * bits / 8 < kMatrixPiece - 1 ? 2 : 1);
    const uint32_t code = word >> i * bits % 8 & ((1u << bits) - 1);
    to[i] = static_cast<std::byte>(ToE4M3(code, packing == Packing::kE3M2 ? 3 : 2,
                                          packing == Packing::kE2M3   ? 3
                                          : packing == Packing::kE3M2 ? 2
                                                                      : 1));
  }
}

/// One lane's instruction.
struct Issued {
  Warp& warp;
  const Op* op;
  int lane;
  TensorMemory& memory;

  bool Illegal(const std::string& why) const {
    Fault(warp, op, "illegal_instruction", why, lane);
    return false;
  }
  bool Unsupported(std::string what) const {
    warp.worker->unsupported = std::move(what);
    warp.stop = Stop::kFault;
    return false;
  }
};

/// Checks the bits of a matrix descriptor of PTX 9.0.
bool ReadDescriptor(const Issued& issued, uint64_t bits, MatrixDescriptor* matrix) {
  if ((bits >> 46 & 7u) != 1) {
    return issued.Illegal(
        fmt::format("The matrix descriptor {:#018x} has not 0b001 in bits 46 to 48.", bits));
  }
  if ((bits >> 52 & 1u) != 0) {
    return issued.Unsupported("tcgen05 with an absolute leading dimension offset");
  }
  const uint64_t layout = bits >> 61;
  if (layout != 1 && layout % 2 != 0) {
    return issued.Illegal(fmt::format("The matrix descriptor has the swizzling mode {}.", layout));
  }
  *matrix = MatrixDescriptor::OfTensorCore(bits);
  return true;
}

/// Checks that the pieces are inside of shared memory, and ordered after their writes.
bool CheckMatrix(const Issued& issued, const TensorMatrix& matrix) {
  Warp& warp = issued.warp;
  return ForEachPiece(matrix, [&](const uint32_t* offsets, uint32_t active) {
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
      const int i = __builtin_ctz(rest);
      if (uint64_t{offsets[i]} + kMatrixPiece <= warp.shared_bytes) continue;
      MemoryFault(warp, issued.op, FaultKind::kOutOfBounds, MemorySpace::kShared, issued.lane,
                  offsets[i], kMatrixPiece, false);
      return false;
    }
    if (!warp.checking) return true;
    const HandlerTable& handlers = *warp.worker->launch->code->handlers;
    const WarpClock& clock = warp.block->checker->clocks().of(warp.index);
    if (handlers.stamp_proxied(warp, issued.op, offsets, active, clock.proxied.data())) return true;
    AccessKind kind;
    kind.proxied = true;
    return CheckShared(warp, issued.op, kind, active, kMatrixPiece, offsets);
  });
}

/// Reads a matrix into blocks of 8 lines of 16 bytes, [line][k].
std::vector<std::byte> ReadBlocks(const Warp& warp, const TensorMatrix& matrix) {
  std::vector<std::byte> blocks(size_t{matrix.lines} * matrix.line_bytes);
  const uint32_t of_line = matrix.line_bytes / kMatrixPiece;  // blocks
  const auto at = [&](uint32_t line, uint32_t byte) {
    return blocks.data() + (line / 8 * of_line + byte / kMatrixPiece) * kBlockBytes +
           line % 8 * kMatrixPiece + byte % kMatrixPiece;
  };
  for (uint32_t piece = 0; piece < matrix.pieces(); ++piece) {
    const std::byte* from = warp.shared + matrix.OffsetOf(piece);
    const uint32_t line = matrix.LineOf(piece), byte = matrix.ByteOf(piece);
    if (!matrix.transposed) {
      std::memcpy(at(line, byte), from, kMatrixPiece);
      continue;
    }
    const uint32_t bytes = matrix.element_bytes;
    for (uint32_t i = 0; i < kMatrixPiece / bytes && line + i < matrix.lines; ++i) {
      std::memcpy(at(line + i, byte), from + size_t{i} * bytes, bytes);
    }
  }
  return blocks;
}

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

bool ReadTypes(const Issued& issued, TensorKind kind, uint32_t bits, TensorInstruction* to) {
  const uint32_t d = bits >> 4 & 3u, a = bits >> 7 & 7u, b = bits >> 10 & 7u;
  const auto illegal = [&] {
    return issued.Illegal(
        fmt::format("The instruction descriptor {:#010x} has types (A {}, B {}, D {}) that this "
                    "kind does not allow.",
                    bits, a, b, d));
  };
  to->d = d == 0 ? MatrixType::kF16 : d == 1 ? MatrixType::kF32 : MatrixType::kS32;
  const bool is_float = d <= 1;
  switch (kind) {
    case TensorKind::kF16:
      to->a = to->b = a == 0 ? MatrixType::kF16 : MatrixType::kBF16;
      return (is_float && a <= 1 && a == b && d >= a) || illegal();
    case TensorKind::kTF32:
      to->a = to->b = MatrixType::kTF32;
      return (d == 1 && a == 2 && b == 2) || illegal();
    case TensorKind::kI8:
      to->a = a == 0 ? MatrixType::kU8 : MatrixType::kS8;
      to->b = b == 0 ? MatrixType::kU8 : MatrixType::kS8;
      return (d == 2 && a <= 1 && b <= 1) || illegal();
    case TensorKind::kMxF4:
    case TensorKind::kMxF4NvF4:
      to->a = to->b = MatrixType::kE4M3;
      to->of_a = to->of_b = Packing::kNibbles;
      return (a == 1 && b == 1) || illegal();
    case TensorKind::kF8F6F4:
    case TensorKind::kMxF8F6F4:
      break;
  }
  static constexpr Packing kPackings[] = {Packing::kPlain, Packing::kPlain, Packing::kPlain,
                                          Packing::kE2M3,  Packing::kE3M2,  Packing::kE2M1};
  const auto is_known = [](uint32_t type) { return type <= 5 && type != 2; };
  if (!is_float || !is_known(a) || !is_known(b)) return illegal();
  to->a = a == 1 ? MatrixType::kE5M2 : MatrixType::kE4M3;
  to->b = b == 1 ? MatrixType::kE5M2 : MatrixType::kE4M3;
  to->of_a = kPackings[a];
  to->of_b = kPackings[b];
  return true;
}

/// The bits of a block-scaled product's instruction descriptor that differ from others'.
bool ReadScaleBits(const Issued& issued, const TensorMultiply& multiply, uint32_t* bits,
                   TensorInstruction* to) {
  to->scale_b = *bits >> 4 & 3u;
  to->scale_a = *bits >> 29 & 3u;
  to->scales_are_powers = (*bits >> 23 & 1u) != 0;
  if ((*bits >> 31) != 0) return issued.Unsupported("tcgen05.mma with K = 96");
  const bool must_be_powers = multiply.kind != TensorKind::kMxF4NvF4;
  const bool fits = to->scale_a % multiply.scales == 0 && to->scale_b % multiply.scales == 0;
  if (!fits || (must_be_powers && !to->scales_are_powers)) {
    return issued.Illegal(fmt::format(
        "The instruction descriptor {:#010x} has factors (A {}, B {}, type {}) that this kind does "
        "not allow.",
        *bits, to->scale_a, to->scale_b, *bits >> 23 & 1u));
  }
  *bits = (*bits & ~(3u << 4 | 1u << 23 | 3u << 29)) | 1u << 4;  // as others, with D float32
  return true;
}

bool ReadInstruction(const Issued& issued, const TensorMultiply& multiply, uint32_t bits,
                     TensorInstruction* to) {
  const bool is_scaled = multiply.scales != 0;
  if ((is_scaled && !ReadScaleBits(issued, multiply, &bits, to)) ||
      !ReadTypes(issued, multiply.kind, bits, to)) {
    return false;
  }
  const bool is_integer = multiply.kind == TensorKind::kI8;
  to->lines = (bits >> 24 & 31u) * 16;
  to->columns = (bits >> 17 & 63u) * 8;
  const bool is_coarse =
      (to->lines == kTensorLanes && !is_scaled) || (is_integer && to->columns > 32);
  const uint32_t step = is_coarse ? 16 : 8;  // of columns
  if ((to->lines != 64 && to->lines != kTensorLanes) || (is_scaled && to->lines == 64) ||
      to->columns == 0 || to->columns > 256 || to->columns % step != 0) {
    return issued.Illegal(
        fmt::format("The instruction descriptor {:#010x} has M = {} and N = {}. M must be {}128, "
                    "and N a multiple of {} up to 256.",
                    bits, to->lines, to->columns, is_scaled ? "" : "64 or ", step));
  }
  to->saturates = (bits >> 3 & 1u) != 0;
  to->negates = (bits >> 13 & 1u) != (bits >> 14 & 1u);
  to->transposes_a = (bits >> 15 & 1u) != 0;
  to->transposes_b = (bits >> 16 & 1u) != 0;
  const bool has_sign = (bits >> 13 & 3u) != 0;
  if ((bits & 7u) != 0 || (bits >> 30) != 0 || (is_integer ? has_sign : to->saturates)) {
    return issued.Illegal(
        fmt::format("The instruction descriptor {:#010x} has bits that a dense product of this "
                    "kind does not allow.",
                    bits));
  }
  if ((to->transposes_a && to->of_a != Packing::kPlain) ||
      (to->transposes_b && to->of_b != Packing::kPlain)) {
    return issued.Illegal("Matrices of floats of 6 and 4 bits cannot be transposed.");
  }
  return true;
}

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

/// Floats of 6 and 4 bits become e4m3.
void Unpack(Packing packing, std::vector<std::byte>* blocks) {
  if (packing == Packing::kPlain) return;
  const uint32_t parts = packing == Packing::kNibbles ? 2 : 1;  // blocks for each block
  std::vector<std::byte> converted(blocks->size() * parts);
  for (size_t at = 0; at < blocks->size(); at += kMatrixPiece) {
    std::byte pieces[2 * kMatrixPiece];
    Convert(packing, blocks->data() + at, pieces);
    const size_t block = at / kBlockBytes * parts, line = at % kBlockBytes;
    for (size_t part = 0; part < parts; ++part) {
      std::memcpy(converted.data() + (block + part) * kBlockBytes + line,
                  pieces + part * kMatrixPiece, kMatrixPiece);
    }
  }
  *blocks = std::move(converted);
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

/// The lines and bytes of a line that a copy reads.
TensorMatrix SourceOf(TensorCopyShape shape) {
  TensorMatrix matrix;
  matrix.line_bytes =
      shape == TensorCopyShape::k128x256b || shape == TensorCopyShape::k4x256b ? 32 : 16;
  switch (shape) {
    case TensorCopyShape::k128x256b:
    case TensorCopyShape::k128x128b:
      matrix.lines = 128;
      break;
    case TensorCopyShape::k4x256b:
      matrix.lines = 4;
      break;
    case TensorCopyShape::k64x128b0213:
    case TensorCopyShape::k64x128b0123:
      matrix.lines = 64;
      break;
    case TensorCopyShape::k32x128b:
      matrix.lines = 32;
      break;
  }
  return matrix;
}

/// The line of the source that lane `lane` gets; -1: none. `first` is the lane of the address.
int LineFor(TensorCopyShape shape, uint32_t lane, uint32_t first) {
  switch (shape) {
    case TensorCopyShape::k128x256b:
    case TensorCopyShape::k128x128b:
      return static_cast<int>(lane);
    case TensorCopyShape::k4x256b:
      return lane % 32 == first ? static_cast<int>(lane / 32) : -1;
    case TensorCopyShape::k64x128b0213:
      return static_cast<int>(lane % 64);
    case TensorCopyShape::k64x128b0123:
      return static_cast<int>(lane / 64 * 32 + lane % 32);
    case TensorCopyShape::k32x128b:
      return static_cast<int>(lane % 32);
  }
  return -1;
}

/// src: address, matrix descriptor; aux: a TensorCopyShape
bool CopyToTensor(const Issued& issued) {
  Warp& warp = issued.warp;
  const auto shape = static_cast<TensorCopyShape>(issued.op->aux);
  const TensorCell to = TensorAddress(At<const uint32_t>(warp, issued.op->src[0])[issued.lane]);
  const uint64_t bits = At<const uint64_t>(warp, issued.op->src[1])[issued.lane];
  const bool is_short = shape == TensorCopyShape::k4x256b;
  if (to.lane >= (is_short ? 32u : 1u)) {
    return issued.Illegal(
        fmt::format("The copy must start at {} of tensor memory. Its address "
                    "names lane {}.",
                    is_short ? "one of the lanes 0 to 31" : "lane 0", to.lane));
  }
  TensorMatrix matrix = SourceOf(shape);
  if (!ReadDescriptor(issued, bits, &matrix.matrix)) return false;
  if (matrix.matrix.atom == MatrixDescriptor::kLargerAtom) {
    return issued.Unsupported("tcgen05.cp with the swizzling mode with atoms of 32 bytes");
  }
  if (!CheckMatrix(issued, matrix)) return false;
  TensorMemory& memory = issued.memory;
  memory.Issue(warp, issued.op, issued.lane, TensorCompletion::kCommit);
  const uint32_t words = matrix.line_bytes / 4;
  const uint32_t groups = is_short ? 0x55u << to.lane / 16 : 0xffu;
  if (!memory.Write(warp, {groups, to.column, words})) return false;
  if (warp.checking) memory.ReadsShared(warp, {matrix});
  for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
    const int line = LineFor(shape, lane, to.lane);
    if (line < 0) continue;
    for (uint32_t word = 0; word < words; ++word) {
      std::memcpy(memory.Column(to.column + word) + lane,
                  warp.shared + matrix.matrix.OfLines(static_cast<uint32_t>(line), word * 4), 4);
    }
  }
  return true;
}

template <bool (*Execute)(const Issued&)>
const Op* ForEachThread(Warp& warp, const Op* op) {
  TensorMemory& memory = AsyncOf(warp).TensorOf(warp);
  for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
    if (!Execute({warp, op, __builtin_ctz(rest), memory})) return nullptr;
  }
  return op + 1;
}

}  // namespace

void RegisterTensorProducts(HandlerTable& table) {
  auto add = [&](const char* key, Handler handler) {
    Entry entry;
    entry.full = entry.masked = handler;
    table.Add(key, entry);
  };
  add("@tcgen05.mma", &ForEachThread<&MultiplyMatrices>);
  add("@tcgen05.cp", &ForEachThread<&CopyToTensor>);
}

}  // namespace cupel::emu
