// Instructions that threads execute together: of a warp (shfl, vote, match, redux, activemask,
// bar.warp.sync), of a block (bar) and of a cluster (barrier.cluster). Each executes when all
// threads that it names have arrived.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "machine_state.h"

namespace cupel::reference {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

/// Executes one waiting instruction, if one is ready.
bool Machine::ResolveWarp(Block& block, Warp& warp) {
  const bool all_stopped = std::none_of(warp.lanes.begin(), warp.lanes.end(), [](const Thread* t) {
    return t->status == Status::kRunning;
  });
  for (Thread* first : warp.lanes) {
    if (first->status != Status::kWarp) continue;
    const Instr& instr = first->instr();
    auto together = [&](const Thread* t) {
      return t->status == Status::kWarp && &t->instr() == &instr &&
             t->frames.size() == first->frames.size();
    };
    if (instr.op == Opcode::kActivemask) {
      if (!all_stopped) continue;
      uint32_t mask = 0;
      for (const Thread* t : warp.lanes) {
        if (together(t)) mask |= 1u << (t->number % 32);
      }
      for (Thread* t : warp.lanes) {
        if (!together(t)) continue;
        Write(*t, instr.operands[0], mask, 32, false);
        t->status = Status::kRunning;
        ++t->frame().pc;
      }
      return true;
    }
    // The last operand names the lanes, except for instructions of whole warps.
    auto mask_of = [&](Thread& t) {
      return instr.op == Opcode::kTcgen05
                 ? 0xffffffffu
                 : static_cast<uint32_t>(Read(block, t, instr.operands.back(), 32));
    };
    const uint32_t mask = mask_of(*first);
    if (((mask >> (first->number % 32)) & 1u) == 0) {
      Fail(first, "the lane's mask does not include the lane itself");
      return false;
    }
    std::vector<Thread*> lanes;
    bool complete = true;
    for (Thread* t : warp.lanes) {
      if (((mask >> (t->number % 32)) & 1u) == 0 || t->status == Status::kDone) continue;
      complete &= together(t) && mask_of(*t) == mask;
      lanes.push_back(t);
    }
    if (complete) return PerformTogether(block, lanes, mask);
  }
  return false;
}

bool Machine::PerformTogether(Block& block, const std::vector<Thread*>& lanes, uint32_t mask) {
  const Opcode op = lanes.front()->instr().op;
  if (op == Opcode::kShfl) Shuffle(block, lanes, mask);
  if (op == Opcode::kVote) Vote(block, lanes);
  if (op == Opcode::kMatch) Match(block, lanes);
  if (op == Opcode::kRedux) Reduce(block, lanes);
  if (op == Opcode::kTcgen05) UseTensorMemory(block, lanes);
  for (Thread* t : lanes) {
    t->status = Status::kRunning;
    ++t->frame().pc;
  }
  return true;
}

void Machine::Shuffle(Block& block, const std::vector<Thread*>& lanes, uint32_t) {
  const Instr& instr = lanes.front()->instr();
  std::array<std::optional<uint64_t>, 32> given;
  for (Thread* t : lanes) given[t->number % 32] = Read(block, *t, instr.operands[1], 32);
  const Operand& to = instr.operands[0];
  const bool pair = to.kind == OperandKind::kPair;
  for (Thread* t : lanes) {
    const auto lane = static_cast<int>(t->number % 32);
    const auto b = static_cast<int>(Read(block, *t, instr.operands[2], 32) & 31u);
    const auto c = static_cast<int>(Read(block, *t, instr.operands[3], 32));
    const int bound = c & 31, segment = (c >> 8) & 31;
    const int most = (lane & segment) | (bound & ~segment);
    const int least = lane & segment;
    int from = least | (b & ~segment);
    if (instr.Has(Modifier::kUp)) from = lane - b;
    if (instr.Has(Modifier::kDown)) from = lane + b;
    if (instr.Has(Modifier::kBfly)) from = lane ^ b;
    const bool inside = instr.Has(Modifier::kUp) ? from >= most : from <= most;
    if (!inside) from = lane;
    const std::optional<uint64_t> value = given[static_cast<size_t>(from)];
    if (!value) {
      Fail(t, "a shuffle that reads lane " + std::to_string(from) + ", which does not exist");
      return;
    }
    Write(*t, pair ? to.elements[0] : to, *value, 32, false);
    if (pair) Write(*t, to.elements[1], inside ? 1 : 0, 1, false);
  }
}

void Machine::Vote(Block& block, const std::vector<Thread*>& lanes) {
  const Instr& instr = lanes.front()->instr();
  uint32_t yes = 0, all = 0;
  for (Thread* t : lanes) {
    const uint32_t self = 1u << (t->number % 32);
    all |= self;
    if (Read(block, *t, instr.operands[1], 1) != 0) yes |= self;
  }
  uint64_t result = yes;
  if (instr.Has(Modifier::kAll)) result = yes == all ? 1 : 0;
  if (instr.Has(Modifier::kAny)) result = yes != 0 ? 1 : 0;
  if (instr.Has(Modifier::kUni)) result = yes == all || yes == 0 ? 1 : 0;
  for (Thread* t : lanes)
    Write(*t, instr.operands[0], result, instr.Has(Modifier::kBallot) ? 32 : 1, false);
}

void Machine::Match(Block& block, const std::vector<Thread*>& lanes) {
  const Instr& instr = lanes.front()->instr();
  const int bits = BitsOf(instr.Types().back());
  std::vector<uint64_t> values;
  for (Thread* t : lanes) values.push_back(Read(block, *t, instr.operands[1], bits));
  std::vector<uint32_t> same(lanes.size());
  uint32_t all = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    all |= 1u << (lanes[i]->number % 32);
    for (size_t j = 0; j < lanes.size(); ++j) {
      if (values[i] == values[j]) same[i] |= 1u << (lanes[j]->number % 32);
    }
  }
  const Operand& to = instr.operands[0];
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (instr.Has(Modifier::kAny)) {
      Write(*lanes[i], to, same[i], 32, false);
      continue;
    }
    const bool equal = same[i] == all;
    const bool pair = to.kind == OperandKind::kPair;
    Write(*lanes[i], pair ? to.elements[0] : to, equal ? all : 0, 32, false);
    if (pair) Write(*lanes[i], to.elements[1], equal ? 1 : 0, 1, false);
  }
}

void Machine::Reduce(Block& block, const std::vector<Thread*>& lanes) {
  const Instr& instr = lanes.front()->instr();
  const bool is_signed = instr.Types().back() == Type::kS32;
  std::optional<uint64_t> result;
  for (Thread* t : lanes) {
    const uint64_t value = Read(block, *t, instr.operands[1], 32);
    if (!result) {
      result = value;
      continue;
    }
    const bool less = is_signed ? SignExtend(value, 32) < SignExtend(*result, 32) : value < *result;
    if (instr.Has(Modifier::kAdd)) result = Truncate(*result + value, 32);
    if (instr.Has(Modifier::kMin) && less) result = value;
    if (instr.Has(Modifier::kMax) && !less) result = value;
    if (instr.Has(Modifier::kAnd)) result = *result & value;
    if (instr.Has(Modifier::kOr)) result = *result | value;
    if (instr.Has(Modifier::kXor)) result = *result ^ value;
  }
  for (Thread* t : lanes) Write(*t, instr.operands[0], *result, 32, false);
}

/// bar.{sync,arrive,red}: counts the thread. The thread waits, except for bar.arrive.
bool Machine::ArriveAtBarrier(Block& block, Thread& thread, const Instr& instr) {
  const bool reduces = instr.Has(Modifier::kRed);
  const size_t first = reduces ? 1 : 0;
  const size_t count = instr.operands.size() - first - (reduces ? 1 : 0);
  const auto id = static_cast<uint32_t>(Read(block, thread, instr.operands[first], 32));
  if (id >= block.barriers.size()) return Fail(&thread, "no such barrier");
  Block::Barrier& barrier = block.barriers[id];
  ++barrier.arrived;
  barrier.expected =
      count > 1 ? static_cast<uint32_t>(Read(block, thread, instr.operands[first + 1], 32)) : 0;
  if (reduces && Read(block, thread, instr.operands.back(), 1) != 0) ++barrier.votes;
  if (instr.Has(Modifier::kArrive)) return true;
  thread.status = Status::kBarrier;
  thread.barrier = id;
  thread.reduces = reduces ? &instr : nullptr;
  return false;
}

bool Machine::ResolveBarriers(Block& block) {
  uint32_t live = 0;
  for (const Thread& thread : block.threads) live += thread.status != Status::kDone ? 1 : 0;
  bool progress = false;
  for (uint32_t id = 0; id < block.barriers.size(); ++id) {
    Block::Barrier& barrier = block.barriers[id];
    const uint32_t expected = barrier.expected != 0 ? barrier.expected : live;
    if (barrier.arrived == 0 || barrier.arrived < expected) continue;
    for (Thread& thread : block.threads) {
      if (thread.status != Status::kBarrier || thread.barrier != id) continue;
      if (thread.reduces != nullptr) {
        const Instr& instr = *thread.reduces;
        uint64_t result = barrier.votes;
        if (instr.Has(Modifier::kAnd)) result = barrier.votes == barrier.arrived ? 1 : 0;
        if (instr.Has(Modifier::kOr)) result = barrier.votes != 0 ? 1 : 0;
        Write(thread, instr.operands[0], result, instr.Has(Modifier::kPopc) ? 32 : 1, false);
      }
      thread.status = Status::kRunning;
      ++thread.frame().pc;
      progress = true;
    }
    barrier = {};
  }
  return progress;
}

/// barrier.cluster.{arrive,wait}
bool Machine::ArriveAtCluster(Block& block, Thread& thread, const Instr& instr) {
  Cluster& cluster = *block.cluster;
  if (instr.Has(Modifier::kArrive)) {
    ++cluster.arrived;
    thread.cluster_phase = cluster.phase + 1;
    return true;
  }
  if (thread.cluster_phase == 0) return Fail(&thread, "a wait without an arrival");
  thread.status = Status::kCluster;
  return false;
}

bool Machine::ResolveCluster(Cluster& cluster) {
  uint64_t live = 0;
  for (const Block& block : cluster.blocks) {
    for (const Thread& thread : block.threads) live += thread.status != Status::kDone ? 1 : 0;
  }
  if (cluster.arrived != 0 && cluster.arrived >= live) {
    cluster.arrived = 0;
    ++cluster.phase;
  }
  bool progress = false;
  for (Block& block : cluster.blocks) {
    for (Thread& thread : block.threads) {
      if (thread.status != Status::kCluster || thread.cluster_phase > cluster.phase) continue;
      thread.status = Status::kRunning;
      thread.cluster_phase = 0;
      ++thread.frame().pc;
      progress = true;
    }
  }
  return progress;
}

}  // namespace cupel::reference
