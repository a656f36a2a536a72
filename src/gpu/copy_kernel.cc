// Tested by copy_kernel_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "gpu/copy_kernel.h"

#include <fmt/format.h>

#include <span>

namespace cupel::gpu {
namespace {

/// Adds to %off the distance of element %i from the first, in bytes.
std::string OffsetText(std::span<const int64_t> shape, std::span<const int64_t> strides,
                       int64_t element) {
  std::string text = "mov.u64 %left, %i;\nmov.u64 %off, 0;\n";
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    text += fmt::format(
        "rem.u64 %at, %left, {0};\ndiv.u64 %left, %left, {0};\n"
        "mad.lo.s64 %off, %at, {1}, %off;\n",
        shape[d], strides[d] * element);
  }
  return text;
}

/// PTX for the exact value of a float8 in %r as a half in %h, on GPUs without such conversions too.
std::string HalfText(DType dtype) {
  if (dtype == DType::kF8E5M2) return "shl.b32 %r, %r, 8;\ncvt.u16.u32 %h, %r;\n";
  // The exponent's bias differs by 8: the half is 2^-8 times the value. NaN has all bits set.
  return "and.b32 %m, %r, 127;\nand.b32 %r, %r, 128;\nshl.b32 %r, %r, 8;\n"
         "shl.b32 %n, %m, 7;\nor.b32 %r, %r, %n;\nsetp.eq.u32 %b, %m, 127;\n"
         "selp.b32 %r, 0x7fff, %r, %b;\ncvt.u16.u32 %h, %r;\n";
}

/// PTX that rounds %f to the float8 in %r, like FloatToFloat8 (base/dtype.cc).
std::string Float8Text(DType dtype) {
  const bool wide_range = dtype == DType::kF8E5M2;
  const int digits = wide_range ? 2 : 3, bias = wide_range ? 15 : 7, shift = 23 - digits;
  const uint32_t rebias = static_cast<uint32_t>(127 - bias) << 23;
  const uint32_t magic = static_cast<uint32_t>(127 + 24 - bias - digits) << 23;
  return fmt::format(
      "mov.b32 %s, %f;\nand.b32 %m, %s, 0x7fffffff;\nand.b32 %s, %s, 0x80000000;\n"
      "shr.u32 %s, %s, 24;\n"
      "mov.b32 %f, %m;\nmov.b32 %g, {magic:#x};\nadd.rn.f32 %f, %f, %g;\nmov.b32 %n, %f;\n"
      "sub.u32 %n, %n, {magic:#x};\n"
      "shr.u32 %r, %m, {shift};\nand.b32 %r, %r, 1;\nadd.u32 %r, %r, %m;\n"
      "sub.u32 %r, %r, {less:#x};\nshr.u32 %r, %r, {shift};\n"
      "setp.lt.u32 %b, %m, {normal:#x};\nselp.b32 %r, %n, %r, %b;\n"
      "min.u32 %r, %r, {most:#x};\n"
      "setp.gt.u32 %b, %m, 0x7f800000;\nselp.b32 %r, 0x7f, %r, %b;\nor.b32 %r, %r, %s;\n",
      fmt::arg("magic", magic), fmt::arg("shift", shift),
      fmt::arg("less", rebias - ((1u << (shift - 1)) - 1)), fmt::arg("normal", rebias + (1u << 23)),
      fmt::arg("most", wide_range ? 0x7c : 0x7e));
}

/// Loads from [%p] into %d (floats, exact) or %l (integers).
std::string LoadText(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "ld.global.u8 %l, [%p];\n";
    case DType::kI8:
      return "ld.global.s8 %l, [%p];\n";
    case DType::kI16:
      return "ld.global.s16 %l, [%p];\n";
    case DType::kI32:
      return "ld.global.s32 %l, [%p];\n";
    case DType::kI64:
      return "ld.global.s64 %l, [%p];\n";
    case DType::kBool:
      return "ld.global.u8 %l, [%p];\nmin.u64 %l, %l, 1;\n";
    case DType::kF16:
      return "ld.global.b16 %h, [%p];\ncvt.f64.f16 %d, %h;\n";
    case DType::kBF16:
      return "ld.global.u16 %r, [%p];\nshl.b32 %r, %r, 16;\nmov.b32 %f, %r;\ncvt.f64.f32 %d, %f;\n";
    case DType::kF8E5M2:
      return "ld.global.u8 %r, [%p];\n" + HalfText(dtype) + "cvt.f64.f16 %d, %h;\n";
    case DType::kF8E4M3:
      return "ld.global.u8 %r, [%p];\n" + HalfText(dtype) +
             "cvt.f64.f16 %d, %h;\nmul.rn.f64 %d, %d, 0d4070000000000000;\n";  // 2^8
    case DType::kF32:
      return "ld.global.f32 %f, [%p];\ncvt.f64.f32 %d, %f;\n";
    case DType::kF64:
      return "ld.global.f64 %d, [%p];\n";
  }
  return {};
}

/// Rounds the source once to float32. Smaller formats are made from the result.
std::string ToFloat(bool from_floating) {
  return from_floating ? "cvt.rn.f32.f64 %f, %d;\n" : "cvt.rn.f32.s64 %f, %l;\n";
}

/// Stores %d or %l to [%q], like c10::convert: floats are converted to uint8 and int64 via int64,
/// and to other integers via int32.
std::string StoreText(DType dtype, bool from_floating) {
  const bool wide = dtype == DType::kU8 || dtype == DType::kI64;
  std::string integer;
  if (from_floating && dtype != DType::kBool && !IsFloating(dtype)) {
    integer = wide ? "cvt.rzi.s64.f64 %l, %d;\n" : "cvt.rzi.s32.f64 %r, %d;\ncvt.s64.s32 %l, %r;\n";
  }
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
      return integer + "st.global.u8 [%q], %l;\n";
    case DType::kI16:
      return integer + "st.global.u16 [%q], %l;\n";
    case DType::kI32:
      return integer + "st.global.u32 [%q], %l;\n";
    case DType::kI64:
      return integer + "st.global.u64 [%q], %l;\n";
    case DType::kBool:
      return std::string(from_floating ? "setp.neu.f64 %b, %d, 0d0000000000000000;\n"
                                       : "setp.ne.s64 %b, %l, 0;\n") +
             "selp.u32 %r, 1, 0, %b;\nst.global.u8 [%q], %r;\n";
    case DType::kF16:
      return ToFloat(from_floating) + "cvt.rn.f16.f32 %h, %f;\nst.global.b16 [%q], %h;\n";
    case DType::kBF16:
      return ToFloat(from_floating) + "cvt.rn.bf16.f32 %h, %f;\nst.global.b16 [%q], %h;\n";
    case DType::kF8E5M2:
    case DType::kF8E4M3:
      return ToFloat(from_floating) + Float8Text(dtype) + "st.global.u8 [%q], %r;\n";
    case DType::kF32:
      return ToFloat(from_floating) + "st.global.f32 [%q], %f;\n";
    case DType::kF64:
      return std::string(from_floating ? "" : "cvt.rn.f64.s64 %d, %l;\n") +
             "st.global.f64 [%q], %d;\n";
  }
  return {};
}

/// Copies between equal types bit by bit, including the payloads of NaNs.
std::string MoveText(int bytes) {
  switch (bytes) {
    case 1:
      return "ld.global.u8 %r, [%p];\nst.global.u8 [%q], %r;\n";
    case 2:
      return "ld.global.b16 %h, [%p];\nst.global.b16 [%q], %h;\n";
    case 4:
      return "ld.global.b32 %r, [%p];\nst.global.b32 [%q], %r;\n";
    default:
      return "ld.global.b64 %l, [%p];\nst.global.b64 [%q], %l;\n";
  }
}

}  // namespace

std::string CopyKernelPtx(const plan::CopyView& copy, const std::string& version,
                          const std::string& target) {
  const DType from = copy.from.dtype, to = copy.to.dtype;
  const std::string move =
      from == to ? MoveText(SizeOf(to)) : LoadText(from) + StoreText(to, IsFloating(from));
  return fmt::format(
      ".version {}\n.target {}\n.address_size 64\n"
      ".visible .entry {}(.param .u64 to, .param .u64 from) {{\n"
      ".reg .pred %done, %b;\n.reg .b16 %h;\n.reg .b32 %r, %m, %n, %s, %bid, %bdim, %lane, %grid;\n"
      ".reg .b64 %i, %step, %left, %at, %off, %p, %q, %to, %from, %l;\n.reg .f32 %f, %g;\n.reg "
      ".f64 "
      "%d;\n"
      "ld.param.u64 %to, [to];\nld.param.u64 %from, [from];\n"
      "mov.u32 %bid, %ctaid.x;\nmov.u32 %bdim, %ntid.x;\nmov.u32 %lane, %tid.x;\n"
      "mov.u32 %grid, %nctaid.x;\nmul.wide.u32 %i, %bid, %bdim;\ncvt.u64.u32 %at, %lane;\n"
      "add.u64 %i, %i, %at;\nmul.wide.u32 %step, %grid, %bdim;\n"
      "LOOP:\nsetp.ge.u64 %done, %i, {};\n@%done ret;\n"
      "{}add.u64 %p, %from, %off;\n{}add.u64 %q, %to, %off;\n{}"
      "add.u64 %i, %i, %step;\nbra LOOP;\n}}\n",
      version, target, kCopyKernel, plan::ElementsOf(copy.to),
      OffsetText(copy.from.shape, copy.from.strides, SizeOf(from)),
      OffsetText(copy.to.shape, copy.to.strides, SizeOf(to)), move);
}

}  // namespace cupel::gpu
