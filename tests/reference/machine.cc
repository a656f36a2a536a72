// Launches, blocks and threads.
// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <algorithm>
#include <cstring>

#include "machine_state.h"
#include "ptx/parser.h"

namespace cupel::reference {

using ptx::Type;

namespace {

uint64_t AlignUp(uint64_t value, int alignment) {
  const auto to = static_cast<uint64_t>(std::max(alignment, 1));
  return (value + to - 1) / to * to;
}

}  // namespace

Machine::Machine(const ptx::Module& module) : module_(module) {
  auto place_shared = [&](const ptx::Variable& variable) {
    if (variable.space != ptx::Space::kShared) return;
    shared_bytes_ = AlignUp(shared_bytes_, std::max(variable.align, 8));
    shared_[variable.name] = shared_bytes_;
    shared_bytes_ += variable.bytes;
  };
  for (const ptx::Variable& variable : module.variables) {
    place_shared(variable);
    if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) continue;
    std::vector<std::byte> bytes(variable.bytes);
    std::memcpy(bytes.data(), variable.initializer.data(),
                std::min(bytes.size(), variable.initializer.size()));
    symbols_[variable.name] = Allocate(std::move(bytes));
  }
  for (const ptx::Function& function : module.functions) {
    for (const ptx::Variable& variable : function.variables) place_shared(variable);
  }
}

Machine::~Machine() = default;

uint64_t Machine::Allocate(std::vector<std::byte> bytes) {
  const uint64_t address = next_address_;
  next_address_ += (bytes.size() + 0xffffu) & ~uint64_t{0xfff};
  buffers_[address] = std::move(bytes);
  return address;
}

const std::vector<std::byte>& Machine::Contents(uint64_t address) const {
  return buffers_.at(address);
}

bool Machine::Fail(const Thread* thread, const std::string& what) {
  if (!error_.empty()) return false;
  error_ = what;
  if (thread == nullptr || thread->frames.empty()) return false;
  const Frame& frame = thread->frames.back();
  error_ += " in thread " + std::to_string(thread->number);
  if (frame.pc < frame.code->steps.size()) {
    error_ +=
        " at \"" + ptx::Print(*frame.code->steps[frame.pc].instr, *frame.code->function) + "\"";
  }
  return false;
}

const Machine::Code& Machine::Prepare(const ptx::Function& function) {
  std::unique_ptr<Code>& code = codes_[function.name];
  if (code) return *code;
  code = std::make_unique<Code>();
  code->function = &function;
  for (const ptx::Instr& instr : function.body) {
    Step step;
    step.instr = &instr;
    const ptx::Types types = instr.Types();
    if (!types.empty()) step.type = types.back();
    const bool carries = instr.Has(ptx::Modifier::kCc) || instr.op == ptx::Opcode::kAddc ||
                         instr.op == ptx::Opcode::kSubc || instr.op == ptx::Opcode::kMadc;
    const bool is_set = instr.op == ptx::Opcode::kSet;  // compares like setp
    if (!carries && instr.unknown.empty()) {
      step.operation = FindOperation(is_set ? ptx::Opcode::kSetp : instr.op, instr.modifiers);
    }
    code->steps.push_back(std::move(step));
  }
  return *code;
}

void Machine::EnterFunction(Thread& thread, const ptx::Function& function) {
  Frame frame;
  frame.code = &Prepare(function);
  frame.registers.assign(function.registers.size(), 0);
  auto place = [&](const std::string& name, uint64_t bytes) {
    frame.variables[name] = thread.local.size();
    thread.local.resize(thread.local.size() + AlignUp(bytes, 16));
  };
  for (const ptx::Variable& variable : function.variables) {
    if (variable.space == ptx::Space::kLocal || variable.space == ptx::Space::kParam) {
      place(variable.name, variable.bytes);
    }
  }
  if (!function.is_entry) {
    for (const ptx::Param& param : function.params) place(param.name, param.bytes);
    for (const ptx::Param& param : function.returns) place(param.name, param.bytes);
  }
  thread.frames.push_back(std::move(frame));
}

/// The place of a variable. An unknown name is an error.
Machine::Place Machine::PlaceOf(Block&, const Thread& thread, std::string_view symbol) {
  const Frame& frame = thread.frames.back();
  const auto local = frame.variables.find(symbol);
  if (local != frame.variables.end()) return {Space::kLocal, local->second};
  for (const ptx::Param& param : frame.code->function->params) {
    if (param.name == symbol) return {Space::kParam, param.offset};
  }
  const auto shared = shared_.find(symbol);
  if (shared != shared_.end()) return {Space::kShared, shared->second};
  const auto global = symbols_.find(symbol);
  if (global != symbols_.end()) return {Space::kGlobal, global->second};
  Fail(&thread, "unknown symbol " + std::string(symbol));
  return {};
}

/// The block to which an address of shared memory belongs, or null and an error.
Machine::Block* Machine::Owner(Block& block, Thread& thread, uint64_t shared_address) {
  const uint64_t rank = shared_address >> kRankShift;
  if (rank == 0) return &block;
  if (rank <= block.cluster->blocks.size()) return &block.cluster->blocks[rank - 1];
  Fail(&thread, "no such block in the cluster");
  return nullptr;
}

/// The bytes at a place. If they are out of bounds or misaligned: null and an error.
std::byte* Machine::Bytes(Block& block, Thread& thread, Place place, uint64_t size,
                          uint64_t alignment) {
  auto inside = [&](std::vector<std::byte>& bytes, uint64_t offset) -> std::byte* {
    if (offset > bytes.size() || bytes.size() - offset < size) {
      Fail(&thread, "out of bounds");
      return nullptr;
    }
    if (place.offset % alignment != 0) {
      Fail(&thread, "misaligned");
      return nullptr;
    }
    return bytes.data() + offset;
  };
  switch (place.space) {
    case Space::kShared: {
      Block* owner = Owner(block, thread, place.offset);
      if (owner == nullptr) return nullptr;
      return inside(owner->shared, place.offset & ((1u << kRankShift) - 1));
    }
    case Space::kLocal:
      return inside(thread.local, place.offset);
    case Space::kParam: {
      auto& parameters = const_cast<std::vector<std::byte>&>(launch_->parameters);
      return inside(parameters, place.offset);
    }
    case Space::kGlobal:
      break;
  }
  auto after = buffers_.upper_bound(place.offset);
  if (after == buffers_.begin()) {
    Fail(&thread, "address outside every buffer");
    return nullptr;
  }
  --after;
  return inside(after->second, place.offset - after->first);
}

void Machine::RunThread(Block& block, Thread& thread) {
  while (error_.empty() && thread.status == Status::kRunning) {
    Frame& frame = thread.frame();
    if (frame.pc >= frame.code->steps.size()) {
      ExecuteReturn(block, thread);
      continue;
    }
    if (++executed_ > max_instructions) {
      Fail(&thread, "too many instructions");
      return;
    }
    const Step& step = frame.code->steps[frame.pc];
    const ptx::Instr& instr = *step.instr;
    if (instr.guard >= 0) {
      const bool holds = frame.registers[static_cast<size_t>(instr.guard)] != 0;
      if (holds == instr.guard_negated) {
        ++frame.pc;
        continue;
      }
    }
    if (Execute(block, thread, step)) ++thread.frame().pc;
  }
}

void Machine::RunCluster(Cluster& cluster) {
  for (;;) {
    bool progress = false, done = true;
    for (Block& block : cluster.blocks) {
      for (Thread& thread : block.threads) {
        RunThread(block, thread);
        if (!error_.empty()) return;
      }
      bool resolved = false;
      for (Warp& warp : block.warps) resolved |= ResolveWarp(block, warp);
      if (error_.empty() && !resolved) resolved = ResolveProducts(block);
      if (error_.empty() && !resolved) resolved = ResolveBarriers(block);
      if (!error_.empty()) return;
      progress |= resolved;
      for (Thread& thread : block.threads) {
        done &= thread.status == Status::kDone;
        if (thread.status != Status::kYield) continue;
        thread.status = Status::kRunning;
        progress = true;
      }
    }
    if (done) return;
    progress |= ResolveCluster(cluster);
    if (progress) continue;
    for (const Block& block : cluster.blocks) {
      for (const Thread& thread : block.threads) {
        if (thread.status != Status::kDone) Fail(&thread, "deadlock");
      }
    }
    return;
  }
}

std::string Machine::Run(const Launch& launch) {
  error_.clear();
  executed_ = 0;
  launch_ = &launch;
  const ptx::Function* function = module_.Find(launch.kernel);
  if (function == nullptr || !function->is_entry) return "no kernel " + launch.kernel;
  if (launch.parameters.size() < function->param_bytes) return "too few parameters";
  std::array<uint32_t, 3> shape{1, 1, 1};
  for (size_t d = 0; d < function->cluster_dims.size() && d < 3; ++d) {
    shape[d] = static_cast<uint32_t>(function->cluster_dims[d]);
    if (launch.grid[d] % shape[d] != 0) return "the grid is not a multiple of the cluster";
  }
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const uint32_t blocks = shape[0] * shape[1] * shape[2];
  const std::array<uint32_t, 3> clusters{launch.grid[0] / shape[0], launch.grid[1] / shape[1],
                                         launch.grid[2] / shape[2]};
  for (uint32_t c = 0; c < clusters[0] * clusters[1] * clusters[2] && error_.empty(); ++c) {
    Cluster cluster;
    cluster.shape = shape;
    cluster.is_explicit = !function->cluster_dims.empty();
    cluster.blocks.resize(blocks);
    for (uint32_t b = 0; b < blocks; ++b) {
      Block& block = cluster.blocks[b];
      block.cluster = &cluster;
      block.rank = b;
      block.index = {c % clusters[0] * shape[0] + b % shape[0],
                     c / clusters[0] % clusters[1] * shape[1] + b / shape[0] % shape[1],
                     c / clusters[0] / clusters[1] * shape[2] + b / shape[0] / shape[1]};
      block.shared.resize(AlignUp(shared_bytes_, 16) + launch.dynamic_shared);
      block.threads.resize(threads);
      block.warps.resize((threads + 31) / 32);
      for (uint32_t t = 0; t < threads; ++t) {
        Thread& thread = block.threads[t];
        thread.number = t;
        thread.index = {t % launch.block[0], t / launch.block[0] % launch.block[1],
                        t / launch.block[0] / launch.block[1]};
        EnterFunction(thread, *function);
        block.warps[t / 32].lanes.push_back(&thread);
      }
    }
    RunCluster(cluster);
  }
  return error_;
}

}  // namespace cupel::reference
