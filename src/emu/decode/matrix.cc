// mma, wmma, ldmatrix, stmatrix and movmatrix. Operands are listed in the block order of matrix.h.
// SPDX-License-Identifier: Apache-2.0
#include "emu/core/matrix.h"

#include <algorithm>
#include <numeric>

#include "emu/core/handler_table.h"
#include "emu/core/op.h"
#include "emu/decode/decoder.h"
#include "emu/decode/matrix_operands.h"
#include "emu/isa/instructions.h"

namespace cupel::emu {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

std::optional<MatrixType> MatrixTypeOf(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kB16:
      return MatrixType::kF16;
    case Type::kBF16:
      return MatrixType::kBF16;
    case Type::kTF32:
      return MatrixType::kTF32;
    case Type::kF32:
      return MatrixType::kF32;
    case Type::kF64:
      return MatrixType::kF64;
    case Type::kE4M3:
      return MatrixType::kE4M3;
    case Type::kE5M2:
      return MatrixType::kE5M2;
    case Type::kS8:
      return MatrixType::kS8;
    case Type::kU8:
    case Type::kB8:
      return MatrixType::kU8;
    case Type::kS4:
      return MatrixType::kS4;
    case Type::kU4:
      return MatrixType::kU4;
    case Type::kB1:
      return MatrixType::kB1;
    case Type::kS32:
      return MatrixType::kS32;
    default:
      return std::nullopt;
  }
}

namespace {

/// The shape, if all its numbers are at most 256.
std::optional<ptx::Shape> ExtentOf(const Instr& instr) {
  const ptx::Shape& shape = instr.shape;
  if (!instr.Has(Modifier::kShape) || std::max({shape.m, shape.n, shape.k}) > 256) {
    return std::nullopt;
  }
  return shape;
}

/// The number of elements in a line of a block.
uint32_t DepthOf(uint32_t bits) { return bits == 64 ? 4 : 128 / bits; }

/// The number of blocks that `count` elements of k fill, `bits` bits each; 0 if one stays partial.
uint32_t DepthBlocks(uint32_t count, uint32_t bits) {
  const uint32_t depth = DepthOf(bits);
  return count % depth == 0 ? count / depth : 0;
}

}  // namespace

uint32_t SlotsOfAccumulator(MatrixType type) { return type == MatrixType::kF16 ? 1 : 2; }

namespace {

// The index of a block's register in an instruction's operand list. 16 lines form a unit, whose two
// blocks alternate.
size_t LeftIndex(uint32_t line, uint32_t column, uint32_t lines, uint32_t columns) {
  return lines == 1 ? column : (line / 2) * 2 * columns + line % 2 + 2 * column;
}
size_t AccumulatorIndex(uint32_t line, uint32_t column, uint32_t lines, uint32_t columns,
                        uint32_t slots) {
  if (lines == 1) return column * slots;
  return (line / 2) * 2 * columns * slots + column * 2 * slots + line % 2 * slots;
}

}  // namespace

std::vector<size_t> OrderOf(char role, uint32_t lines, uint32_t columns, uint32_t slots) {
  std::vector<size_t> order;
  for (uint32_t line = 0; line < lines; ++line) {
    for (uint32_t column = 0; column < columns; ++column) {
      const size_t first = role == 'a'   ? LeftIndex(line, column, lines, columns)
                           : role == 'b' ? size_t{line} * columns + column
                                         : AccumulatorIndex(line, column, lines, columns, slots);
      for (uint32_t s = 0; s < slots; ++s) order.push_back(first + s);
    }
  }
  return order;
}

namespace {

std::vector<Operand> ElementsOf(const Operand& operand) {
  if (operand.kind == OperandKind::kVector) return operand.elements;
  return {operand};
}

SlotKind SlotOf(MatrixType type) {
  return type == MatrixType::kF64 ? SlotKind::kDouble : SlotKind::kWord;
}

/// Gets the shape and types of mma and wmma.mma. Returns false if they are unsupported.
bool DescribeProduct(const Instr& instr, ProductShape* shape) {
  const std::optional<ptx::Shape> extent = ExtentOf(instr);
  std::vector<MatrixType> types;
  for (const Type type : instr.Types()) {
    if (const std::optional<MatrixType> found = MatrixTypeOf(type)) types.push_back(*found);
  }
  if (instr.modifiers.HasAny({Modifier::kBlockScale, Modifier::kKindF8f6f4, Modifier::kKindMxf8f6f4,
                              Modifier::kKindMxf4, Modifier::kKindMxf4nvf4})) {
    return false;
  }
  if (!extent || (types.size() != 4 && types.size() != 2)) return false;
  // wmma of f16 names only the types of the accumulators d and c.
  shape->d = types.front();
  shape->c = types.back();
  shape->a = types.size() == 4 ? types[1] : MatrixType::kF16;
  shape->b = types.size() == 4 ? types[2] : MatrixType::kF16;
  // mma.m8n8k4 of f16 multiplies four small matrices, each in a quarter of the warp.
  if (extent->m == 8 && extent->k == 4 && shape->a != MatrixType::kF64) return false;
  if (extent->m % 8 != 0 || extent->n % 8 != 0) return false;
  shape->m = extent->m / 8;
  shape->n = extent->n / 8;
  shape->k = DepthBlocks(extent->k, BitsOf(shape->a));
  shape->saturates = instr.Has(Modifier::kSatfinite);
  shape->is_and = instr.Has(Modifier::kAnd);
  const bool is_mma = instr.op == Opcode::kMma;
  if (is_mma &&
      (!instr.Has(Modifier::kRow) || !instr.Has(Modifier::kCol) || instr.Has(Modifier::kRz) ||
       instr.Has(Modifier::kRm) || instr.Has(Modifier::kRp))) {
    return false;
  }
  // The buffers of the handlers limit the size (ops/matrix.inc). b1 elements are not expanded.
  const uint32_t block = shape->a == MatrixType::kB1 ? 1 : 8 * DepthOf(BitsOf(shape->a));
  if (shape->k > 4 || std::max(shape->m, shape->n) * shape->k * block > kMostProductElements) {
    return false;
  }
  return BitsOf(shape->a) == BitsOf(shape->b) && shape->m * shape->n <= 16 && shape->m >= 1 &&
         shape->m <= 4 && shape->n >= 1 && shape->n <= 4 && shape->k >= 1 && shape->k <= 4;
}

}  // namespace

Micro ProductOp(const ProductShape& shape) {
  const bool integers = shape.c == MatrixType::kS32 && shape.d == MatrixType::kS32;
  const bool doubles = shape.c == MatrixType::kF64 && shape.d == MatrixType::kF64;
  const auto is_float = [](MatrixType type) {
    return type == MatrixType::kF16 || type == MatrixType::kF32;
  };
  switch (shape.a) {
    case MatrixType::kB1:
      return integers ? Micro::kMmaBits : Micro::kNone;
    case MatrixType::kS8:
    case MatrixType::kU8:
    case MatrixType::kS4:
    case MatrixType::kU4:
      return integers ? Micro::kMmaInteger : Micro::kNone;
    case MatrixType::kF64:
      return doubles ? Micro::kMmaDouble : Micro::kNone;
    case MatrixType::kF16:
    case MatrixType::kBF16:
    case MatrixType::kTF32:
    case MatrixType::kE4M3:
    case MatrixType::kE5M2:
      return is_float(shape.c) && is_float(shape.d) ? Micro::kMmaFloat : Micro::kNone;
    default:
      return Micro::kNone;
  }
}

/// Stores `slots` as the operand list of the last emitted op.
void Decoder::SetList(const std::vector<int>& slots) {
  code_->ops.back().imm = static_cast<int64_t>(code_->lists.size());
  code_->lists.insert(code_->lists.end(), slots.begin(), slots.end());
}

/// The slots of a fragment's registers in list order; empty on failure. If a wmma fragment has
/// several copies of each element, only the first copy is used.
std::vector<int> Decoder::FragmentSlots(const std::vector<Operand>& registers,
                                        const std::vector<size_t>& order, SlotKind kind,
                                        bool write) {
  std::vector<int> slots;
  if (registers.empty() || registers.size() % order.size() != 0) return slots;
  for (size_t index : order) {
    const Operand& operand = registers[index];
    slots.push_back(write ? Write(operand, kind) : Read(operand, kind, Type::kB32));
  }
  return slots;
}

bool IsSparse(const Instr& instr) {
  return instr.modifiers.HasAny({Modifier::kSp, Modifier::kSpOrderedMetadata});
}

/// Emits the expansion of a sparse A and returns the slots of the dense fragment; empty on failure.
std::vector<int> Decoder::ExpandSparse(const Instr& instr, const ProductShape& product,
                                       const std::vector<int>& sparse, const Operand& metadata,
                                       const Operand& selector) {
  SparseShape shape;
  shape.columns = product.k / 2;
  shape.unit = std::min(2u, std::max(1u, BitsOf(product.a) / 8));
  shape.is_paired = BitsOf(product.a) == 32;
  shape.is_ordered = instr.Has(Modifier::kSpOrderedMetadata);
  shape.selector = static_cast<uint32_t>(selector.bits);
  const bool fits = product.m == 2 && (product.k == 2 || product.k == 4) &&
                    BitsOf(product.a) >= 4 && BitsOf(product.a) <= 32 &&
                    sparse.size() == product.k && selector.kind == OperandKind::kImmediate &&
                    selector.bits < shape.selectors();
  if (!fits) return {};
  const int words = Read(metadata, SlotKind::kWord, Type::kB32);
  std::vector<int> dense(size_t{2} * product.k);
  for (int& slot : dense) slot = Temporary(SlotKind::kWord);
  std::vector<int> list = sparse;
  list.insert(list.end(), dense.begin(), dense.end());
  Op& op = Emit(Micro::kMmaExpand);
  op.src[0] = words;
  op.flops = shape.Pack();
  SetList(list);
  return dense;
}

/// mma and wmma.mma: d, a, b, c; mma.sp: d, a, b, c, metadata, selector
bool Decoder::EmitProduct(const Instr& instr) {
  ProductShape shape;
  if (!BeginMatrix(instr)) return false;
  const bool is_sparse = IsSparse(instr);
  if (instr.operands.size() != (is_sparse ? 6u : 4u) || !DescribeProduct(instr, &shape)) {
    return Fail(instr.Mnemonic());
  }
  const Micro micro = ProductOp(shape);
  if (micro == Micro::kNone) return Fail(instr.Mnemonic());
  std::vector<int> list;
  auto add = [&](size_t operand, char role, uint32_t lines, uint32_t columns, MatrixType type) {
    const bool sums = role == 'c' || role == 'd';
    const uint32_t slots = sums ? SlotsOfAccumulator(type) : 1;
    const std::vector<Operand> registers = ElementsOf(instr.operands[operand]);
    const std::vector<int> found =
        FragmentSlots(registers, OrderOf(role, lines, columns, slots), SlotOf(type), role == 'd');
    list.insert(list.end(), found.begin(), found.end());
    const bool exact = sums || instr.op == Opcode::kMma;
    return !found.empty() && (!exact || registers.size() == found.size());
  };
  if (!add(1, 'a', shape.m, is_sparse ? shape.k / 2 : shape.k, shape.a)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  if (is_sparse) {
    list = ExpandSparse(instr, shape, list, instr.operands[4], instr.operands[5]);
    if (list.empty()) return Fail(instr.Mnemonic() + " with these operands");
  }
  if (!add(2, 'b', shape.n, shape.k, shape.b) || !add(3, 'c', shape.m, shape.n, shape.c) ||
      !add(0, 'd', shape.m, shape.n, shape.d)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  Op& op = Emit(micro);
  op.flops = shape.Pack();
  SetList(list);
  return !failed_;
}

/// wmma.{load.{a,b,c},store.d}.sync.aligned.layout.shape[.space].type r, [p][, stride]
bool Decoder::EmitFragment(const Instr& instr) {
  if (instr.Has(Modifier::kMma)) return EmitProduct(instr);
  if (!BeginMatrix(instr)) return false;
  const bool store = instr.Has(Modifier::kStore);
  const std::optional<ptx::Shape> extent = ExtentOf(instr);
  const std::optional<MatrixType> type = MatrixTypeOf(ptx::TypeOf(instr.modifiers.back()));
  char role = store ? 'd' : 0;
  if (!store && instr.Has(Modifier::kA)) role = 'a';
  if (!store && instr.Has(Modifier::kB)) role = 'b';
  if (!store && instr.Has(Modifier::kC)) role = 'c';
  if (instr.operands.size() < 2 || !extent || !type || role == 0) return Fail(instr.Mnemonic());
  const bool sums = role == 'c' || role == 'd';
  const bool is_sum = *type == MatrixType::kF16 || *type == MatrixType::kF32 ||
                      *type == MatrixType::kF64 || *type == MatrixType::kS32;
  if (sums != is_sum && *type != MatrixType::kF16 && *type != MatrixType::kF64) {
    return Fail(instr.Mnemonic());
  }
  FragmentShape shape;
  shape.bits = BitsOf(*type);
  shape.lines = (role == 'b' ? extent->n : extent->m) / 8;
  shape.columns = sums ? extent->n / 8 : DepthBlocks(extent->k, shape.bits);
  shape.elements = sums ? 2 : (shape.bits == 64 ? 1 : 32 / shape.bits);
  shape.contiguous = instr.Has(Modifier::kRow) != (role == 'b');
  if (shape.lines == 0 || shape.lines > 4 || shape.columns == 0 || shape.columns > 4 ||
      (shape.bits < 8 && !shape.contiguous)) {
    return Fail(instr.Mnemonic());
  }
  const Operand& address = instr.operands[store ? 0 : 1];
  const Operand& value = instr.operands[store ? 1 : 0];
  AccessShape access;
  if (!SpaceOf(instr, address, &access.space)) return false;
  if (access.space != MemorySpace::kShared && access.space != MemorySpace::kGlobal &&
      access.space != MemorySpace::kGeneric) {
    return Fail(instr.Mnemonic());
  }
  const uint32_t bytes = shape.contiguous ? shape.elements * shape.bits / 8 : shape.bytes();
  access.element_bytes = std::min(bytes, 8u);
  access.store = store;
  int64_t displacement = 0;
  const int base = AddressSlot(address, access.space, &displacement);
  // Without a stride, the matrix is packed.
  const uint32_t packed =
      sums ? (instr.Has(Modifier::kRow) ? extent->n : extent->m)
           : (shape.contiguous ? extent->k : (role == 'a' ? extent->m : extent->n));
  const int stride = instr.operands.size() > 2
                         ? Read(instr.operands[2], SlotKind::kWord, Type::kU32)
                         : SharedConstant(SlotKind::kWord, packed);
  const std::vector<Operand> registers = ElementsOf(value);
  const uint32_t slots = sums ? SlotsOfAccumulator(*type) : 1;
  const std::vector<size_t> order = OrderOf(role, shape.lines, shape.columns, slots);
  const SlotKind kind = SlotOf(*type);
  const std::vector<int> list = FragmentSlots(registers, order, kind, !store);
  if (list.empty() || displacement != static_cast<int32_t>(displacement)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  Op& op = Emit(Micro::kFragment);
  op.src[0] = base;
  op.src[1] = stride;
  op.target = static_cast<int32_t>(displacement);
  op.aux = access.Pack();
  op.flops = shape.Pack();
  op.count = code_->hints++;
  SetList(list);
  // Fill in further copies of the elements.
  for (size_t i = order.size(); i < registers.size() && !store; ++i) {
    const int from = Read(registers[i % order.size()], kind, Type::kB32);
    const int to = Write(registers[i], kind);
    Op& copy = Emit(Form(Opcode::kMov, {Modifier::kB32}));
    copy.dst = to;
    copy.src[0] = from;
    for (size_t s = 1; s < 4; ++s) copy.src[s] = from;
  }
  return !failed_;
}

/// {ld,st}matrix.sync.aligned.m8n8.{x1,x2,x4}[.trans][.shared].b16
bool Decoder::EmitMatrixRows(const Instr& instr) {
  if (!BeginMatrix(instr)) return false;
  const bool store = instr.op == Opcode::kStmatrix;
  const uint32_t matrices = instr.Has(Modifier::kX4) ? 4 : (instr.Has(Modifier::kX2) ? 2 : 1);
  if (instr.operands.size() != 2 || !instr.Has(Modifier::kM8n8) || !instr.Has(Modifier::kB16)) {
    return Fail(instr.Mnemonic());
  }
  const Operand& address = instr.operands[store ? 0 : 1];
  const std::vector<Operand> registers = ElementsOf(instr.operands[store ? 1 : 0]);
  AccessShape access;
  access.element_bytes = 8;
  access.elements = 2;
  access.store = store;
  if (!SpaceOf(instr, address, &access.space)) return false;
  int64_t displacement = 0;
  const int base = AddressSlot(address, access.space, &displacement);
  std::vector<size_t> order(matrices);
  std::iota(order.begin(), order.end(), size_t{0});
  const std::vector<int> list = FragmentSlots(registers, order, SlotKind::kWord, !store);
  if (registers.size() != matrices || list.empty() ||
      displacement != static_cast<int32_t>(displacement)) {
    return Fail(instr.Mnemonic() + " with these operands");
  }
  Op& op = Emit(Micro::kMatrixRows);
  op.src[0] = base;
  op.target = static_cast<int32_t>(displacement);
  op.aux = access.Pack();
  op.flops = matrices | (instr.Has(Modifier::kTrans) ? 8u : 0u);
  op.count = code_->hints++;
  SetList(list);
  return !failed_;
}

/// movmatrix.sync.aligned.m8n8.trans.b16
bool Decoder::EmitMatrixMove(const Instr& instr) {
  return BeginMatrix(instr) && (EmitTable(instr, CanonicalForm(instr)) || Fail(instr.Mnemonic()));
}

/// All of these need the whole warp.
bool Decoder::BeginMatrix(const Instr& instr) {
  SetMode(default_mode_);  // lanes may have to wait
  const bool together = instr.Has(Modifier::kSync) && instr.Has(Modifier::kAligned);
  return together || Fail(instr.Mnemonic());
}

}  // namespace cupel::emu
