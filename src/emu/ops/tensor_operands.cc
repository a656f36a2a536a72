// Tested by exec/blackwell_test.cc and the reference interpreter.
// SPDX-License-Identifier: Apache-2.0
#include "emu/ops/tensor_operands.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/dtype.h"
#include "emu/check/race_checks.h"
#include "emu/check/report.h"
#include "emu/check/shared_race.h"
#include "emu/core/block_state.h"
#include "emu/core/code.h"
#include "emu/core/handler_table.h"
#include "emu/core/launch_state.h"
#include "emu/core/worker.h"

namespace cupel::emu {

bool Issued::Illegal(const std::string& why) const {
  Fault(warp, op, "illegal_instruction", why, lane);
  return false;
}

bool Issued::Unsupported(std::string what) const {
  warp.worker->unsupported = std::move(what);
  warp.stop = Stop::kFault;
  return false;
}

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

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace cupel::emu
