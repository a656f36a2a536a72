// mbarriers, asynchronous copies and the addresses of other blocks. A copy ends before the next
// instruction, which is one of the orders that PTX allows.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

constexpr uint64_t kOffsetMask = (uint64_t{1} << kRankShift) - 1;

void EndPhaseIfComplete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
}

/// The state that an arrival returns, as opaque to programs as PTX's.
uint64_t StateOf(const Mbarrier& barrier) { return barrier.phase << 32 | barrier.pending; }

}  // namespace

/// The address in shared memory that an operand has: of the window, or generic.
uint64_t Machine::SharedAddress(Block& block, Thread& thread, const Operand& operand) {
  uint64_t address = static_cast<uint64_t>(operand.offset);
  if (operand.kind == OperandKind::kAddress && operand.reg < 0) {
    address += PlaceOf(block, thread, operand.symbol).offset;
  } else if (operand.kind == OperandKind::kAddress) {
    address += thread.frame().registers[static_cast<size_t>(operand.reg)];
  } else {
    address = Read(block, thread, operand, 64);
  }
  return address >= kSharedBase ? address - kSharedBase : address;
}

/// Counts bytes that arrived.
bool Machine::CompleteBytes(Block& block, Thread& thread, uint64_t barrier, uint64_t bytes) {
  Block* owner = Owner(block, thread, barrier);
  if (owner == nullptr) return false;
  const auto found = owner->mbarriers.find(barrier & kOffsetMask);
  if (found == owner->mbarriers.end()) return Fail(&thread, "not an mbarrier");
  found->second.bytes -= static_cast<int64_t>(bytes);
  EndPhaseIfComplete(found->second);
  return true;
}

/// One arrival of the thread's own operations.
bool Machine::ArriveAt(Block& block, Thread& thread, uint64_t barrier) {
  Block* owner = Owner(block, thread, barrier);
  if (owner == nullptr) return false;
  const auto found = owner->mbarriers.find(barrier & kOffsetMask);
  if (found == owner->mbarriers.end()) return Fail(&thread, "not an mbarrier");
  if (found->second.pending == 0) return Fail(&thread, "too many arrivals");
  --found->second.pending;
  EndPhaseIfComplete(found->second);
  return true;
}

/// mbarrier.{test,try}_wait[.parity] p, [barrier], phase. A thread that must wait ends its turn.
bool Machine::ExecuteWait(Block& block, Thread& thread, const Instr& instr) {
  Block* owner = Owner(block, thread, SharedAddress(block, thread, instr.operands[1]));
  if (owner == nullptr) return false;
  const uint64_t at = SharedAddress(block, thread, instr.operands[1]) & kOffsetMask;
  const auto found = owner->mbarriers.find(at);
  if (found == owner->mbarriers.end()) return Fail(&thread, "not an mbarrier");
  const uint64_t phase = found->second.phase;
  const uint64_t waits_for = Read(block, thread, instr.operands[2], 64);
  const bool is_over =
      instr.Has(Modifier::kParity) ? (phase & 1) != (waits_for & 1) : phase != waits_for >> 32;
  Write(thread, instr.operands[0], is_over ? 1 : 0, 1, false);
  if (!is_over) thread.status = Status::kYield;
  return true;
}

bool Machine::ExecuteMbarrier(Block& block, Thread& thread, const Instr& instr) {
  const std::vector<Operand>& operands = instr.operands;
  if (instr.Has(Modifier::kTestWait) || instr.Has(Modifier::kTryWait)) {
    return ExecuteWait(block, thread, instr);
  }
  if (instr.Has(Modifier::kPendingCount)) {
    Write(thread, operands[0], Truncate(Read(block, thread, operands[1], 64), 32), 32, false);
    return true;
  }
  const size_t at = operands[0].kind == OperandKind::kAddress ? 0 : 1;
  const uint64_t address = SharedAddress(block, thread, operands[at]);
  Block* owner = Owner(block, thread, address);
  if (owner == nullptr) return false;
  std::map<uint64_t, Mbarrier>& all = owner->mbarriers;
  const uint64_t offset = address & kOffsetMask;
  const bool has_number = operands.size() > at + 1;
  const auto number =
      has_number ? static_cast<uint32_t>(Read(block, thread, operands[at + 1], 32)) : 1;
  if (instr.Has(Modifier::kInit)) {
    if (all.contains(offset)) return Fail(&thread, "a second mbarrier.init");
    if (number == 0 || number >= 1u << 20) return Fail(&thread, "an invalid count");
    all[offset] = {number, number, 0, 0};
    return true;
  }
  const auto found = all.find(offset);
  if (found == all.end()) return Fail(&thread, "not an mbarrier");
  if (instr.Has(Modifier::kInval)) {
    all.erase(found);
    return true;
  }
  Mbarrier& barrier = found->second;
  if (instr.Has(Modifier::kExpectTx)) barrier.bytes += number;
  if (instr.Has(Modifier::kCompleteTx)) barrier.bytes -= number;
  const bool drops = instr.Has(Modifier::kArriveDrop);
  if (drops || instr.Has(Modifier::kArrive)) {
    if (at == 1) Write(thread, operands[0], StateOf(barrier), 64, false);
    const uint32_t count = instr.Has(Modifier::kExpectTx) ? 1 : number;
    if (count == 0 || count > barrier.pending) return Fail(&thread, "too many arrivals");
    barrier.pending -= count;
    if (drops) barrier.expected -= count;
  }
  const uint64_t before = barrier.phase;
  EndPhaseIfComplete(barrier);
  if (instr.Has(Modifier::kNoComplete) && barrier.phase != before) {
    return Fail(&thread, "an arrival that completes the phase");
  }
  return true;
}

/// mapa and getctarank: what an address is in another block, and the rank of its block.
bool Machine::ExecuteRank(Block& block, Thread& thread, const Instr& instr) {
  const int bits = BitsOf(instr.Types().back());
  const uint64_t address = SharedAddress(block, thread, instr.operands[1]);
  const uint64_t base = instr.Has(Modifier::kSharedCluster) ? 0 : kSharedBase;
  const uint64_t rank = address >> kRankShift;
  if (instr.op == ptx::Opcode::kGetctarank) {
    Write(thread, instr.operands[0], rank == 0 ? block.rank : rank - 1, 32, false);
    return true;
  }
  const uint64_t other = Read(block, thread, instr.operands[2], 32);
  if (other >= block.cluster->blocks.size()) return Fail(&thread, "no such block in the cluster");
  const uint64_t mapped = base + ((other + 1) << kRankShift | (address & kOffsetMask));
  Write(thread, instr.operands[0], mapped, bits, false);
  return true;
}

/// The same offset in each block of a multicast's mask.
std::vector<uint64_t> Machine::Targets(const Block& block, uint64_t address, uint64_t mask) {
  std::vector<uint64_t> targets;
  for (uint64_t rank = 0; rank < block.cluster->blocks.size(); ++rank) {
    if (((mask >> rank) & 1) == 0) continue;
    targets.push_back((rank + 1) << kRankShift | (address & kOffsetMask));
  }
  return targets;
}

/// Copies bytes to a place, or combines them with what is there if the instruction reduces.
bool Machine::Transfer(Block& block, Thread& thread, const Instr& instr, Type type, Place to,
                       const std::byte* from, uint64_t bytes) {
  const bool reduces = instr.Has(Modifier::kReduce);
  const uint64_t size = reduces ? static_cast<uint64_t>(BitsOf(type)) / 8 : 1;
  std::byte* target = Bytes(block, thread, to, bytes, size);
  if (target == nullptr) return false;
  if (!reduces) {
    std::memmove(target, from, bytes);
    return true;
  }
  for (uint64_t at = 0; at < bytes; at += size) {
    uint64_t old = 0, value = 0;
    std::memcpy(&old, target + at, size);
    std::memcpy(&value, from + at, size);
    const auto next = Updated(instr, type, false, old, value, 0);
    if (!next) return Fail(&thread, "unknown reduction");
    std::memcpy(target + at, &*next, size);
  }
  return true;
}

/// cp[.reduce].async.bulk.to.from… [to], [from], bytes[, [barrier]][, mask]
bool Machine::ExecuteBulkCopy(Block& block, Thread& thread, const Instr& instr) {
  std::vector<ptx::Space> spaces;
  for (const Modifier word : instr.modifiers) {
    if (ptx::SpaceOf(word) != ptx::Space::kNone) spaces.push_back(ptx::SpaceOf(word));
  }
  if (spaces.size() != 2 || instr.operands.size() < 3) return Fail(&thread, "unknown copy");
  auto place = [&](const Operand& operand, ptx::Space space) {
    if (space == ptx::Space::kShared) {
      return Place{Space::kShared, SharedAddress(block, thread, operand)};
    }
    const uint64_t base = operand.reg < 0
                              ? PlaceOf(block, thread, operand.symbol).offset
                              : thread.frame().registers[static_cast<size_t>(operand.reg)];
    return Place{Space::kGlobal, base + static_cast<uint64_t>(operand.offset)};
  };
  const Place to = place(instr.operands[0], spaces[0]), from = place(instr.operands[1], spaces[1]);
  const uint64_t bytes = Read(block, thread, instr.operands[2], 32);
  if (bytes % 16 != 0 || to.offset % 16 != 0) return Fail(&thread, "a copy of parts of 16 bytes");
  const std::byte* source = Bytes(block, thread, from, bytes, 16);
  if (source == nullptr) return false;
  const ptx::Types types = instr.Types();
  const Type type = types.empty() ? Type::kB8 : types.back();
  if (spaces[0] == ptx::Space::kGlobal) {
    return Transfer(block, thread, instr, type, to, source, bytes);
  }
  const uint64_t barrier = SharedAddress(block, thread, instr.operands[3]);
  if (!instr.Has(Modifier::kMulticastCluster)) {
    return Transfer(block, thread, instr, type, to, source, bytes) &&
           CompleteBytes(block, thread, barrier, bytes);
  }
  const uint64_t mask = Read(block, thread, instr.operands[4], 16);
  const std::vector<uint64_t> targets = Targets(block, to.offset, mask);
  const std::vector<uint64_t> barriers = Targets(block, barrier, mask);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!Transfer(block, thread, instr, type, {Space::kShared, targets[i]}, source, bytes) ||
        !CompleteBytes(block, thread, barriers[i], bytes)) {
      return false;
    }
  }
  return true;
}

/// All instructions that begin with cp. Waits have nothing to wait for.
bool Machine::ExecuteCopy(Block& block, Thread& thread, const Instr& instr) {
  if (instr.modifiers.HasAny({Modifier::kCommitGroup, Modifier::kWaitGroup, Modifier::kWaitAll})) {
    return true;
  }
  if (instr.Has(Modifier::kTensor)) return ExecuteTensorCopy(block, thread, instr);
  if (instr.Has(Modifier::kBulk)) return ExecuteBulkCopy(block, thread, instr);
  const uint64_t to = SharedAddress(block, thread, instr.operands[0]);
  if (instr.Has(Modifier::kMbarrier)) {  // cp.async.mbarrier.arrive
    // Without .noinc the arrival is also one more that the phase needs.
    if (instr.Has(Modifier::kNoinc)) return ArriveAt(block, thread, to);
    if (!block.mbarriers.contains(to)) return Fail(&thread, "not an mbarrier");
    return true;
  }
  // cp.async [to], [from], size[, size of the source, or a predicate that ignores it]
  const uint64_t size = Read(block, thread, instr.operands[2], 32);
  uint64_t given = size;
  if (instr.operands.size() > 3) {
    const Operand& last = instr.operands[3];
    const bool is_predicate =
        last.kind == OperandKind::kRegister &&
        thread.frame().code->function->registers[static_cast<size_t>(last.reg)].type == Type::kPred;
    const uint64_t value = Read(block, thread, last, is_predicate ? 1 : 32);
    given = is_predicate ? (value != 0 ? 0 : size) : value;
  }
  if (given > size) return Fail(&thread, "a source that is too large");
  std::byte* target = Bytes(block, thread, {Space::kShared, to}, size, size);
  if (target == nullptr) return false;
  const Operand& from = instr.operands[1];
  const uint64_t address =
      thread.frame().registers[static_cast<size_t>(from.reg)] + static_cast<uint64_t>(from.offset);
  const std::byte* source = Bytes(block, thread, {Space::kGlobal, address}, given, size);
  if (source == nullptr) return false;
  std::memset(target, 0, size);
  std::memcpy(target, source, given);
  return true;
}

}  // namespace cupel::reference
