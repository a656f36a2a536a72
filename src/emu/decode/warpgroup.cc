// wgmma. Each product becomes reads of fragments from shared memory and a product like that of mma;
// integers for 32 columns at a time (emu/core/warpgroup.h).
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/warpgroup.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "emu/core/handler_table.h"
#include "emu/core/matrix.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"
#include "emu/decode/matrix_operands.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

/// The operands of wgmma.mma_async after d, a and b.
struct Scales {
  bool is_known = false;
  bool negates = false;  // the product: exactly one of A and B has the scale -1
  bool transposes_a = false, transposes_b = false;
};

/// A number in a list of slots (Code::lists).
int AsNumber(size_t value) { return -1 - static_cast<int>(value); }

bool AreRegisters(const std::vector<Operand>& operands) {
  return std::all_of(operands.begin(), operands.end(), [](const Operand& operand) {
    return operand.kind == OperandKind::kRegister && operand.reg >= 0;
  });
}

std::optional<int64_t> Immediate(const Operand& operand) {
  if (operand.kind != OperandKind::kImmediate) return std::nullopt;
  return static_cast<int64_t>(operand.bits);
}

Scales ScalesOf(const Instr& instr, MatrixType type, bool a_in_registers) {
  Scales scales;
  const bool is_integer =
      type == MatrixType::kS8 || type == MatrixType::kU8 || type == MatrixType::kB1;
  const bool may_transpose = type == MatrixType::kF16 || type == MatrixType::kBF16;
  size_t count = is_integer ? 4 : 6;
  if (may_transpose) count += a_in_registers ? 1 : 2;
  if (instr.operands.size() != count) return scales;
  std::vector<int64_t> values;
  for (size_t i = 4; i < count; ++i) {
    const auto value = Immediate(instr.operands[i]);
    const bool is_valid =
        value && (i < 6 ? *value == 1 || *value == -1 : *value == 0 || *value == 1);
    if (!is_valid) return scales;
    values.push_back(*value);
  }
  scales.is_known = true;
  if (is_integer) return scales;
  scales.negates = values[0] != values[1];
  if (!may_transpose) return scales;
  scales.transposes_a = !a_in_registers && values[2] == 1;
  scales.transposes_b = values.back() == 1;
  return scales;
}

}  // namespace

/// wgmma.{fence, commit_group, wait_group n, mma_async}
bool Decoder::EmitWarpgroup(const Instr& instr) {
  if (!BeginMatrix(instr)) return false;
  if (instr.Has(Modifier::kMmaAsync)) return EmitWarpgroupProduct(instr);
  if (instr.Has(Modifier::kFence)) {
    Emit(Micro::kWgmmaFence);
  } else if (instr.Has(Modifier::kCommitGroup)) {
    Emit(Micro::kWgmmaCommit);
  } else if (instr.Has(Modifier::kWaitGroup) && instr.operands.size() == 1) {
    const int pending = Read(instr.operands[0], SlotKind::kWord, Type::kU32);
    Emit(Micro::kWgmmaWait).src[0] = pending;
  } else {
    return Fail(instr.Mnemonic());
  }
  return !failed_;
}

/// Emits the check of what the instructions from here on do with registers of products.
void Decoder::EmitWgmmaUses(size_t instr) {
  const auto found = wgmma_uses_.find(instr);
  if (found == wgmma_uses_.end()) return;
  std::vector<int> list = {AsNumber(found->second.size())};
  for (const WgmmaUse& use : found->second) {
    list.push_back(AsNumber(static_cast<size_t>(use.touch)));
    list.push_back(AsNumber(static_cast<size_t>(use.reg)));
    list.push_back(AsNumber(static_cast<size_t>(use.from)));
  }
  Emit(Micro::kWgmmaUse);
  SetList(list);
}

/// Emits the product's checks. Its list has the numbers of registers.
void Decoder::EmitIssue(const Instr& instr, const WarpgroupShape& shape, int a, int b) {
  const std::vector<Operand>& sums = instr.operands[0].elements;
  const std::vector<Operand>& left = instr.operands[1].elements;
  std::vector<int> list = {AsNumber(sums.size()), AsNumber(a < 0 ? left.size() : 0)};
  for (const Operand& sum : sums) list.push_back(AsNumber(static_cast<size_t>(sum.reg)));
  if (a < 0) {
    for (const Operand& element : left) {
      list.push_back(AsNumber(static_cast<size_t>(element.reg)));
    }
  }
  const Operand& scale = instr.operands[3];
  const bool is_constant = scale.kind == OperandKind::kImmediate;
  const int predicate = is_constant ? -1 : Read(scale, SlotKind::kPredicate, Type::kPred);
  Op& op = Emit(Micro::kWgmma);
  op.src[0] = a;
  op.src[1] = b;
  op.src[2] = predicate;
  op.flops = shape.Pack();
  SetList(list);
}

/// wgmma.mma_async[.sp].sync.aligned.shape.dtype.atype.btype d, a, b[, metadata, selector],
/// scale-d, …
bool Decoder::EmitWarpgroupProduct(const Instr& written) {
  Instr instr = written;  // without the metadata
  const bool is_sparse = IsSparse(written);
  const ptx::Types types = instr.Types();
  ProductShape shape;
  if (types.size() != 3 || instr.operands.size() < (is_sparse ? 6u : 4u)) {
    return Fail(instr.Mnemonic());
  }
  if (is_sparse) instr.operands.erase(instr.operands.begin() + 3, instr.operands.begin() + 5);
  const auto d = MatrixTypeOf(types[0]), a = MatrixTypeOf(types[1]), b = MatrixTypeOf(types[2]);
  if (!d || !a || !b || BitsOf(*a) != BitsOf(*b)) return Fail(instr.Mnemonic());
  shape.a = *a;
  shape.b = *b;
  shape.c = shape.d = *d;
  shape.saturates = instr.Has(Modifier::kSatfinite);
  shape.is_and = true;  // of b1
  shape.m = 2;
  shape.k = is_sparse ? 4 : 2;
  const uint32_t bits = BitsOf(*a), columns = instr.shape.n / 8u;
  const Micro product = ProductOp(shape);
  const bool a_in_registers = instr.operands[1].kind == OperandKind::kVector;
  const Scales scales = ScalesOf(instr, *a, a_in_registers);
  // k has 32 bytes: two blocks. A sparse A has as many, and stands for 64.
  if (!instr.Has(Modifier::kShape) || instr.shape.m != 64 || instr.shape.n % 8 != 0 ||
      columns < 1 || columns > 32 || instr.shape.k * bits != 128u * shape.k ||
      product == Micro::kNone || product == Micro::kMmaDouble || !scales.is_known) {
    return Fail(instr.Mnemonic());
  }
  const uint32_t slots = SlotsOfAccumulator(*d);
  const std::vector<Operand>& sums = instr.operands[0].elements;
  if (sums.size() != size_t{2} * columns * slots) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  if (!AreRegisters(sums) || !AreRegisters(instr.operands[1].elements)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  const int of_left = a_in_registers ? -1 : Read(instr.operands[1], SlotKind::kDouble, Type::kB64);
  const int descriptor = Read(instr.operands[2], SlotKind::kDouble, Type::kB64);
  EmitIssue(instr, {columns, scales.transposes_a, scales.transposes_b, is_sparse}, of_left,
            descriptor);
  EmitClear(instr);
  std::vector<int> left = ReadLeft(instr, of_left, scales.transposes_a);
  if (is_sparse && !left.empty()) {
    left = ExpandSparse(written, shape, left, written.operands[3], written.operands[4]);
  }
  if (left.empty()) return Fail(instr.Mnemonic() + " with these operands");
  if (scales.negates) left = Negated(left, *a);
  const uint32_t most = product == Micro::kMmaFloat ? columns : 4;  // columns of one op
  for (uint32_t first = 0; first < columns; first += most) {
    shape.n = std::min(most, columns - first);
    std::vector<int> right(size_t{shape.k} * shape.n);
    auto used = temporaries_used_[SlotKind::kWord];
    for (int& slot : right) slot = Temporary(SlotKind::kWord);
    for (uint32_t line = 0; line < shape.n; line += 4) {
      WarpgroupRead read;
      read.lines = std::min(4u, shape.n - line);
      read.first = first + line;
      read.transposed = scales.transposes_b;
      read.depth = shape.k;
      const auto begin = right.begin() + shape.k * line;
      EmitRead(descriptor, read, {begin, begin + shape.k * read.lines});
    }
    const auto begin = sums.begin() + std::ptrdiff_t{2} * slots * first;
    const std::vector<Operand> part(begin, begin + std::ptrdiff_t{2} * slots * shape.n);
    const std::vector<size_t> order = OrderOf('d', 2, shape.n, slots);
    std::vector<int> list = left;
    list.insert(list.end(), right.begin(), right.end());
    for (const bool write : {false, true}) {
      const std::vector<int> found = FragmentSlots(part, order, SlotKind::kWord, write);
      list.insert(list.end(), found.begin(), found.end());
    }
    Op& op = Emit(product);
    op.flops = shape.Pack();
    SetList(list);
    temporaries_used_[SlotKind::kWord] = used;
  }
  return !failed_;
}

/// If scale-d is false, the accumulators start from 0.
void Decoder::EmitClear(const Instr& instr) {
  const Operand& scale = instr.operands[3];
  if (scale.kind == OperandKind::kImmediate && scale.bits != 0) return;
  std::vector<int> sums;
  for (const Operand& element : instr.operands[0].elements) {
    sums.push_back(Write(element, SlotKind::kWord));
  }
  const int predicate = Read(scale, SlotKind::kPredicate, Type::kPred);
  Op& op = Emit(Micro::kWgmmaClear);
  op.src[0] = predicate;
  op.flops = static_cast<uint32_t>(sums.size());
  SetList(sums);
}

/// The slots of the warp's fragment of A, in the order of matrix.h; empty if there are too few.
std::vector<int> Decoder::ReadLeft(const Instr& instr, int descriptor, bool transposed) {
  const Operand& a = instr.operands[1];
  if (descriptor < 0) {
    if (a.elements.size() != 4) return {};
    return FragmentSlots(a.elements, OrderOf('a', 2, 2, 1), SlotKind::kWord, false);
  }
  std::vector<int> left(4);
  for (int& slot : left) slot = Temporary(SlotKind::kWord);
  WarpgroupRead read;
  read.lines = 2;
  read.of_left = true;
  read.transposed = transposed;
  EmitRead(descriptor, read, left);
  return left;
}

void Decoder::EmitRead(int descriptor, const WarpgroupRead& read, const std::vector<int>& slots) {
  Op& op = Emit(Micro::kWgmmaRead);
  op.src[0] = descriptor;
  op.flops = read.Pack();
  SetList(slots);
}

/// Copies of the slots with the opposite sign.
std::vector<int> Decoder::Negated(const std::vector<int>& slots, MatrixType type) {
  const Modifier suffix = type == MatrixType::kF16    ? Modifier::kF16x2
                          : type == MatrixType::kBF16 ? Modifier::kBF16x2
                                                      : Modifier::kF32;
  std::vector<int> negated;
  if (type == MatrixType::kE4M3 || type == MatrixType::kE5M2) {
    const int signs = SharedConstant(SlotKind::kWord, 0x80808080u);
    for (const int slot : slots) {
      Op& op = Emit(Form(ptx::Opcode::kXor, {Modifier::kB32}));
      op.dst = Temporary(SlotKind::kWord);
      op.src[0] = slot;
      op.src[1] = signs;
      for (size_t s = 2; s < 4; ++s) op.src[s] = slot;
      negated.push_back(op.dst);
    }
    return negated;
  }
  for (const int slot : slots) {
    Op& op = Emit(Form(ptx::Opcode::kNeg, {suffix}));
    op.dst = Temporary(SlotKind::kWord);
    for (size_t s = 0; s < 4; ++s) op.src[s] = slot;
    negated.push_back(op.dst);
  }
  return negated;
}

}  // namespace cupel::emu
