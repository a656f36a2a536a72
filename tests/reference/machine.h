// A slow interpreter of PTX, for comparison with the fast one in tests. It executes one instruction
// of one thread at a time. Registers are 64-bit words, and memory is byte arrays. At instructions
// of a warp, a block or a cluster, a thread waits for all threads that PTX requires. Asynchronous
// instructions end before the next instruction. It reads the parser's modules, and tensor maps in
// cupel's layout, and shares nothing else with src/emu.
//
// It is strict: behaviour that PTX leaves undefined (reading a lane that does not exist, an address
// outside every buffer) ends the launch with an error. Generated programs are therefore defined.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operation.h"
#include "ptx/ir.h"

namespace cupel::reference {

struct Launch {
  std::string kernel;
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters;
};

class Machine {
 public:
  /// The module must outlive the machine.
  explicit Machine(const ptx::Module& module);
  ~Machine();

  /// Allocates global memory and returns its address in the machine.
  uint64_t Allocate(std::vector<std::byte> bytes);
  const std::vector<std::byte>& Contents(uint64_t address) const;

  /// Runs the kernel. Returns why it ended early, or an empty string.
  std::string Run(const Launch& launch);

  /// Limit for the whole launch; ends endless loops.
  uint64_t max_instructions = 50'000'000;

 private:
  struct Step;
  struct Code;
  struct Frame;
  struct Thread;
  struct Warp;
  struct Block;
  struct Cluster;
  struct Box;
  enum class Space { kGlobal, kShared, kLocal, kParam };
  struct Place {
    Space space = Space::kGlobal;
    uint64_t offset = 0;
  };

  // machine.cc
  const Code& Prepare(const ptx::Function& function);
  void RunCluster(Cluster& cluster);
  void RunThread(Block& block, Thread& thread);
  bool Fail(const Thread* thread, const std::string& what);
  Place PlaceOf(Block& block, const Thread& thread, std::string_view symbol);
  Block* Owner(Block& block, Thread& thread, uint64_t shared_address);
  std::byte* Bytes(Block& block, Thread& thread, Place place, uint64_t size, uint64_t alignment);
  void EnterFunction(Thread& thread, const ptx::Function& function);

  // machine_execute.cc: executes one instruction. True if it is done and the next one follows.
  bool Execute(Block& block, Thread& thread, const Step& step);
  bool ExecuteMov(Block& block, Thread& thread, const Step& step);
  bool ExecuteSetp(Block& block, Thread& thread, const Step& step);
  bool ExecuteCarry(Block& block, Thread& thread, const Step& step);
  bool ExecuteCvta(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteCall(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteReturn(Block& block, Thread& thread);
  bool ExecuteFlow(Block& block, Thread& thread, const ptx::Instr& instr);
  uint64_t Read(Block& block, Thread& thread, const ptx::Operand& operand, int bits,
                const Format* format = nullptr);
  void Write(Thread& thread, const ptx::Operand& operand, uint64_t value, int bits, bool is_signed);
  uint64_t SpecialRegister(const Block& block, Thread& thread, const std::string& name);

  // machine_async.cc
  bool ExecuteMbarrier(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteWait(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteCopy(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteBulkCopy(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteRank(Block& block, Thread& thread, const ptx::Instr& instr);
  bool CompleteBytes(Block& block, Thread& thread, uint64_t barrier, uint64_t bytes);
  bool ArriveAt(Block& block, Thread& thread, uint64_t barrier);
  bool Transfer(Block& block, Thread& thread, const ptx::Instr& instr, ptx::Type type, Place to,
                const std::byte* from, uint64_t bytes);
  uint64_t SharedAddress(Block& block, Thread& thread, const ptx::Operand& operand);
  std::vector<uint64_t> Targets(const Block& block, uint64_t address, uint64_t mask);

  // machine_tensor.cc
  bool ExecuteTensorCopy(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ExecuteTensorMap(Block& block, Thread& thread, const ptx::Instr& instr);
  bool LoadBox(Block& block, Thread& thread, const Box& box, uint64_t to);
  bool StoreBox(Block& block, Thread& thread, const ptx::Instr& instr, const Box& box,
                uint64_t from);

  // machine_product.cc
  bool ResolveProducts(Block& block);
  void Multiply(Block& block, const std::vector<Thread*>& threads);

  // machine_tensor_memory.cc
  bool ExecuteTensorMemory(Block& block, Thread& thread, const ptx::Instr& instr);
  bool CopyToTensorMemory(Block& block, Thread& thread, const ptx::Instr& instr);
  bool MultiplyInTensorMemory(Block& block, Thread& thread, const ptx::Instr& instr);
  void UseTensorMemory(Block& block, const std::vector<Thread*>& lanes);
  uint32_t* TensorCell(Block& block, Thread& thread, uint64_t lane, uint64_t column);

  // machine_memory.cc
  bool ExecuteAccess(Block& block, Thread& thread, const Step& step);
  bool ExecuteAtomic(Block& block, Thread& thread, const Step& step);
  bool ExecuteWide(Block& block, Thread& thread, const ptx::Instr& instr);
  std::optional<Place> Address(Block& block, Thread& thread, const ptx::Instr& instr,
                               const ptx::Operand& operand);

  // machine_warp.cc
  bool ResolveWarp(Block& block, Warp& warp);
  bool PerformTogether(Block& block, const std::vector<Thread*>& lanes, uint32_t mask);
  void Shuffle(Block& block, const std::vector<Thread*>& lanes, uint32_t mask);
  void Vote(Block& block, const std::vector<Thread*>& lanes);
  void Match(Block& block, const std::vector<Thread*>& lanes);
  void Reduce(Block& block, const std::vector<Thread*>& lanes);
  bool ResolveBarriers(Block& block);
  bool ArriveAtBarrier(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ArriveAtCluster(Block& block, Thread& thread, const ptx::Instr& instr);
  bool ResolveCluster(Cluster& cluster);

  const ptx::Module& module_;
  std::map<std::string, std::unique_ptr<Code>> codes_;
  std::map<uint64_t, std::vector<std::byte>> buffers_;    // by address
  std::map<std::string, uint64_t, std::less<>> symbols_;  // addresses of module variables
  std::map<std::string, uint64_t, std::less<>> shared_;   // offsets of shared variables
  uint64_t shared_bytes_ = 0;
  uint64_t next_address_ = 0x1'0000'0000u;
  const Launch* launch_ = nullptr;
  uint64_t executed_ = 0;
  std::string error_;
};

}  // namespace cupel::reference
