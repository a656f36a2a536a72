// Instructions of one thread: operands, computation, moves, comparisons, carries, flow.
// SPDX-License-Identifier: Apache-2.0
#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

uint64_t Machine::SpecialRegister(const Block& block, Thread& thread, const std::string& name) {
  const uint32_t lane = thread.number % 32;
  auto component = [&](const std::array<uint32_t, 3>& values) {
    return values[static_cast<size_t>(name.back() - 'x')];
  };
  if (name.starts_with("tid.")) return component(thread.index);
  if (name.starts_with("ntid.")) return component(launch_->block);
  if (name.starts_with("ctaid.")) return component(block.index);
  if (name.starts_with("nctaid.")) return component(launch_->grid);
  const Cluster& cluster = *block.cluster;
  auto of_dimension = [&](auto value) {
    const auto d = static_cast<size_t>(name.back() - 'x');
    return uint64_t{value(cluster.shape[d], block.index[d], launch_->grid[d])};
  };
  if (name.starts_with("cluster_ctaid.")) {
    return of_dimension([](uint32_t shape, uint32_t index, uint32_t) { return index % shape; });
  }
  if (name.starts_with("clusterid.")) {
    return of_dimension([](uint32_t shape, uint32_t index, uint32_t) { return index / shape; });
  }
  if (name.starts_with("nclusterid.")) {
    return of_dimension([](uint32_t shape, uint32_t, uint32_t grid) { return grid / shape; });
  }
  if (name.starts_with("cluster_nctaid.")) return component(cluster.shape);
  if (name == "cluster_ctarank") return block.rank;
  if (name == "cluster_nctarank") return cluster.blocks.size();
  if (name == "is_explicit_cluster") return cluster.is_explicit ? 1 : 0;
  if (name == "laneid") return lane;
  const uint64_t before = (uint64_t{1} << lane) - 1, self = uint64_t{1} << lane;
  if (name == "lanemask_eq") return self;
  if (name == "lanemask_lt") return before;
  if (name == "lanemask_le") return before | self;
  if (name == "lanemask_gt") return 0xffffffffu & ~(before | self);
  if (name == "lanemask_ge") return 0xffffffffu & ~before;
  Fail(&thread, "unknown special register " + name);
  return 0;
}

/// The low `bits` bits of an operand's value. Symbols give addresses in their space.
uint64_t Machine::Read(Block& block, Thread& thread, const Operand& operand, int bits,
                       const Format* format) {
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const uint64_t value = thread.frame().registers[static_cast<size_t>(operand.reg)];
      if (operand.negated) return value == 0 ? 1 : 0;
      return Truncate(value, bits);
    }
    case OperandKind::kImmediate: {
      uint64_t value = operand.bits;
      if (format != nullptr && operand.imm_type == Type::kF64 && format->bits != 64) {
        value = Pack(Unpack(value, kF64), *format, Rounding::kNearestEven);
      } else if (format == &kF64 && operand.imm_type == Type::kF32) {
        value = Pack(Unpack(value, kF32), kF64, Rounding::kNearestEven);
      }
      return bits == 1 ? (value != 0 ? 1 : 0) : Truncate(value, bits);
    }
    case OperandKind::kSpecial:
      return Truncate(SpecialRegister(block, thread, operand.symbol), bits);
    case OperandKind::kSymbol: {
      const Place place = PlaceOf(block, thread, operand.symbol);
      return Truncate(place.offset + static_cast<uint64_t>(operand.offset), bits);
    }
    default:
      Fail(&thread, "operand of an unknown kind");
      return 0;
  }
}

void Machine::Write(Thread& thread, const Operand& operand, uint64_t value, int bits,
                    bool is_signed) {
  if (operand.kind == OperandKind::kSink) return;
  if (operand.kind != OperandKind::kRegister) {
    Fail(&thread, "destination of an unknown kind");
    return;
  }
  const int width = RegisterBits(*thread.frame().code->function, operand.reg);
  const uint64_t extended =
      is_signed && bits < width ? static_cast<uint64_t>(SignExtend(value, bits)) : value;
  thread.frame().registers[static_cast<size_t>(operand.reg)] = Truncate(extended, width);
}

/// mov of values and addresses, and mov between a register and a vector of its parts.
bool Machine::ExecuteMov(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  const Operand& to = instr.operands[0];
  const Operand& from = instr.operands[1];
  const int bits = BitsOf(step.type);
  if (from.kind == OperandKind::kVector) {
    const int part = bits / static_cast<int>(from.elements.size());
    uint64_t value = 0;
    for (size_t i = 0; i < from.elements.size(); ++i) {
      value |= Read(block, thread, from.elements[i], part) << (part * static_cast<int>(i));
    }
    Write(thread, to, value, bits, false);
  } else if (to.kind == OperandKind::kVector) {
    const int part = bits / static_cast<int>(to.elements.size());
    const uint64_t value = Read(block, thread, from, bits);
    for (size_t i = 0; i < to.elements.size(); ++i) {
      Write(thread, to.elements[i], Truncate(value >> (part * static_cast<int>(i)), part), part,
            false);
    }
  } else {
    const Format* format = FormatOf(step.type);
    Write(thread, to, Read(block, thread, from, bits, format), bits, false);
  }
  return true;
}

/// setp and set: the comparison of each half, combined with a predicate.
bool Machine::ExecuteSetp(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  const bool packed = step.type == Type::kF16x2 || step.type == Type::kBF16x2;
  const int bits = packed ? 32 : step.operation->operand_bits[0];
  const Format* format = FormatOf(step.type);
  const uint64_t a = Read(block, thread, instr.operands[1], bits, format);
  const uint64_t b = Read(block, thread, instr.operands[2], bits, format);
  std::array<uint64_t, 2> results{};
  if (packed) {
    results[0] = step.operation->compute({a & 0xffffu, b & 0xffffu, 0, 0});
    results[1] = step.operation->compute({a >> 16, b >> 16, 0, 0});
  } else {
    results[0] = step.operation->compute({a, b, 0, 0});
    results[1] = 1 - results[0];
  }
  if (instr.operands.size() > 3) {
    const uint64_t c = Read(block, thread, instr.operands[3], 1);
    for (uint64_t& result : results) {
      if (instr.Has(Modifier::kAnd)) result &= c;
      if (instr.Has(Modifier::kOr)) result |= c;
      if (instr.Has(Modifier::kXor)) result ^= c;
    }
  }
  const Operand& to = instr.operands[0];
  if (instr.op == Opcode::kSetp) {
    const bool pair = to.kind == OperandKind::kPair;
    Write(thread, pair ? to.elements[0] : to, results[0], 1, false);
    if (pair) Write(thread, to.elements[1], results[1], 1, false);
    return true;
  }
  const Type type = instr.Types()[0];
  const Format* target = FormatOf(type);
  const int width = packed ? 16 : BitsOf(type);
  const uint64_t yes = target != nullptr
                           ? Pack(Number::Integer(false, 1), *target, Rounding::kNearestEven)
                           : Truncate(~uint64_t{0}, width);
  uint64_t value = results[0] ? yes : 0;
  if (packed) value |= (results[1] ? yes : 0) << 16;
  Write(thread, to, value, packed ? 32 : width, false);
  return true;
}

/// add.cc, addc, sub.cc, subc, mad.cc, madc.
bool Machine::ExecuteCarry(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  const int bits = BitsOf(step.type);
  const bool is_signed = IsSigned(step.type);
  Frame& frame = thread.frame();
  unsigned __int128 a = Read(block, thread, instr.operands[1], bits);
  unsigned __int128 b = Read(block, thread, instr.operands[2], bits);
  const bool takes =
      instr.op == Opcode::kAddc || instr.op == Opcode::kSubc || instr.op == Opcode::kMadc;
  const unsigned carry = takes && frame.carry ? 1 : 0;
  if (instr.op == Opcode::kMad || instr.op == Opcode::kMadc) {
    const __int128 left =
        is_signed ? SignExtend(static_cast<uint64_t>(a), bits) : static_cast<__int128>(a);
    const __int128 right =
        is_signed ? SignExtend(static_cast<uint64_t>(b), bits) : static_cast<__int128>(b);
    const auto product =
        static_cast<unsigned __int128>(left) * static_cast<unsigned __int128>(right);
    a = Truncate(static_cast<uint64_t>(instr.Has(Modifier::kHi) ? product >> bits : product), bits);
    b = Read(block, thread, instr.operands[3], bits);
  }
  const bool subtracts = instr.op == Opcode::kSub || instr.op == Opcode::kSubc;
  const unsigned __int128 result = subtracts ? a - b - carry : a + b + carry;
  const bool out = subtracts ? a < b + carry : (result >> bits) != 0;
  if (instr.Has(Modifier::kCc)) frame.carry = out;
  Write(thread, instr.operands[0], Truncate(static_cast<uint64_t>(result), bits), bits, false);
  return true;
}

bool Machine::ExecuteCvta(Block& block, Thread& thread, const Instr& instr) {
  uint64_t base = 0;
  if (instr.modifiers.HasAny({Modifier::kShared, Modifier::kSharedCta, Modifier::kSharedCluster})) {
    base = kSharedBase;
  }
  if (instr.Has(Modifier::kLocal)) base = kLocalBase;
  if (instr.Has(Modifier::kParam)) base = kParamBase;
  const uint64_t from = Read(block, thread, instr.operands[1], 64);
  Write(thread, instr.operands[0], instr.Has(Modifier::kTo) ? from - base : from + base, 64, false);
  return true;
}

bool Machine::ExecuteCall(Block& block, Thread& thread, const Instr& instr) {
  if (instr.operands.size() < 3 || instr.operands[1].kind != OperandKind::kSymbol) {
    return Fail(&thread, "unknown form of a call");
  }
  const ptx::Function* callee = module_.Find(instr.operands[1].symbol);
  if (callee == nullptr || callee->is_declaration) return Fail(&thread, "undefined function");
  if (thread.frames.size() > 32) return Fail(&thread, "deep recursion");
  const std::vector<Operand>& arguments = instr.operands[2].elements;
  if (arguments.size() != callee->params.size()) return Fail(&thread, "wrong arguments");
  std::vector<std::vector<std::byte>> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Place place = PlaceOf(block, thread, arguments[i].symbol);
    const std::byte* bytes = Bytes(block, thread, place, 1, 1);
    if (bytes == nullptr) return false;
    values.emplace_back(bytes, bytes + callee->params[i].bytes);
  }
  EnterFunction(thread, *callee);
  thread.frame().call = &instr;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t offset = thread.frame().variables.at(callee->params[i].name);
    std::copy(values[i].begin(), values[i].end(),
              thread.local.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  return false;  // the callee is next; ExecuteReturn steps over the call
}

bool Machine::ExecuteReturn(Block& block, Thread& thread) {
  if (thread.frames.size() == 1) {
    thread.status = Status::kDone;
    return false;
  }
  const Frame done = std::move(thread.frames.back());
  thread.frames.pop_back();
  const std::vector<Operand>& results = done.call->operands[0].elements;
  const std::vector<ptx::Param>& returns = done.code->function->returns;
  for (size_t i = 0; i < results.size() && i < returns.size(); ++i) {
    const auto from = static_cast<std::ptrdiff_t>(done.variables.at(returns[i].name));
    const std::vector<std::byte> value(thread.local.begin() + from,
                                       thread.local.begin() + from + returns[i].bytes);
    std::byte* to = Bytes(block, thread, PlaceOf(block, thread, results[i].symbol), 1, 1);
    if (to == nullptr) return false;
    std::copy(value.begin(), value.end(), to);
  }
  ++thread.frame().pc;
  return false;
}

bool Machine::ExecuteFlow(Block& block, Thread& thread, const Instr& instr) {
  if (instr.op == Opcode::kBra) {
    thread.frame().pc = static_cast<size_t>(instr.operands[0].target);
    return false;
  }
  if (instr.op == Opcode::kBrx) {
    const auto& table = thread.frame().code->function->branch_table_targets.at(
        static_cast<size_t>(instr.operands[1].target));
    const uint64_t index = Read(block, thread, instr.operands[0], 32);
    if (index >= table.size()) return Fail(&thread, "no such target");
    thread.frame().pc = static_cast<size_t>(table[index]);
    return false;
  }
  if (instr.op == Opcode::kCall) return ExecuteCall(block, thread, instr);
  if (instr.op == Opcode::kRet) return ExecuteReturn(block, thread);
  thread.status = Status::kDone;  // exit
  return false;
}

bool Machine::Execute(Block& block, Thread& thread, const Step& step) {
  const Instr& instr = *step.instr;
  if (step.type == Type::kB128) return ExecuteWide(block, thread, instr);
  switch (instr.op) {
    case Opcode::kLd:
    case Opcode::kSt:
      return ExecuteAccess(block, thread, step);
    case Opcode::kAtom:
    case Opcode::kRed:
      return ExecuteAtomic(block, thread, step);
    case Opcode::kMov:
      return ExecuteMov(block, thread, step);
    case Opcode::kCvta:
      return ExecuteCvta(block, thread, instr);
    case Opcode::kBra:
    case Opcode::kBrx:
    case Opcode::kCall:
    case Opcode::kRet:
    case Opcode::kExit:
      return ExecuteFlow(block, thread, instr);
    case Opcode::kMembar:
    case Opcode::kFence:
    case Opcode::kNanosleep:
      return true;
    case Opcode::kBar:
    case Opcode::kBarrier:
      if (instr.Has(Modifier::kCluster)) return ArriveAtCluster(block, thread, instr);
      if (!instr.Has(Modifier::kWarp)) return ArriveAtBarrier(block, thread, instr);
      [[fallthrough]];
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
    case Opcode::kActivemask:
      thread.status = Status::kWarp;
      return false;
    case Opcode::kMma:
      thread.status = Status::kProduct;
      return false;
    case Opcode::kWgmma:  // products end at once: only they wait for other threads
      if (!instr.Has(Modifier::kMmaAsync)) return true;
      thread.status = Status::kProduct;
      return false;
    case Opcode::kTcgen05:
      return ExecuteTensorMemory(block, thread, instr);
    case Opcode::kCreatepolicy:  // policies have no effect
      Write(thread, instr.operands[0], 0, 64, false);
      return true;
    case Opcode::kTrap:
      return Fail(&thread, "trap");
    case Opcode::kMbarrier:
      return ExecuteMbarrier(block, thread, instr);
    case Opcode::kCp:
      return ExecuteCopy(block, thread, instr);
    case Opcode::kTensormap:
      return ExecuteTensorMap(block, thread, instr);
    case Opcode::kMapa:
    case Opcode::kGetctarank:
      return ExecuteRank(block, thread, instr);
    case Opcode::kAddc:
    case Opcode::kSubc:
    case Opcode::kMadc:
      return ExecuteCarry(block, thread, step);
    default:
      break;
  }
  if (instr.Has(Modifier::kCc)) return ExecuteCarry(block, thread, step);
  if (!step.operation) return Fail(&thread, "unknown instruction");
  if (instr.op == Opcode::kSetp || instr.op == Opcode::kSet)
    return ExecuteSetp(block, thread, step);
  const Operation& operation = *step.operation;
  if (instr.operands.size() != operation.operand_bits.size() + 1) {
    return Fail(&thread, "wrong number of operands");
  }
  Operands operands{};
  const Format* format = FormatOf(step.type);
  for (size_t i = 0; i < operation.operand_bits.size(); ++i) {
    const bool fits = format != nullptr && format->bits == operation.operand_bits[i];
    operands[i] = Read(block, thread, instr.operands[i + 1], operation.operand_bits[i],
                       fits ? format : nullptr);
  }
  Write(thread, instr.operands[0], operation.compute(operands), operation.result_bits,
        operation.result_is_signed);
  return true;
}

}  // namespace cupel::reference
