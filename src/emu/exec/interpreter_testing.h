// Helpers for the interpreter's tests: loading PTX, buffers with device addresses, launching.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "emu/check/global_race.h"
#include "emu/core/handler_table.h"
#include "emu/core/kernel.h"
#include "emu/core/launch_request.h"
#include "emu/core/memory.h"
#include "emu/core/thread_pool.h"
#include "emu/decode/kernel_module.h"
#include "emu/exec/launch.h"
#include "ptx/parser.h"

namespace cupel::emu {

/// Buffers and parameters for launches of one module's kernels.
class Interpreter {
 public:
  explicit Interpreter(const std::string& text, int vector_level = 2, bool is_of_triton = false) {
    auto module = ptx::Parse(text);
    EXPECT_TRUE(module) << (module ? "" : module.error().message);
    if (!module) return;
    auto kernels = KernelModule::Decode(*module, vector_level, is_of_triton);
    kernels_ = std::move(*kernels);
    auto memory = GlobalMemory::Create();
    memory_ = std::make_unique<GlobalMemory>(std::move(*memory));
    for (const ptx::Variable& variable : module->variables) {
      if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) continue;
      const uint64_t address = *memory_->Allocate(variable.bytes, -1, false, variable.name);
      memory_->BindSymbol(variable.name, address);
      std::memset(memory_->Host(address), 0, variable.bytes);
      std::memcpy(memory_->Host(address), variable.initializer.data(),
                  std::min<size_t>(variable.initializer.size(), variable.bytes));
    }
  }

  template <class T>
  uint64_t Buffer(const std::vector<T>& values) {
    const uint64_t address = *memory_->Allocate(values.size() * sizeof(T), next_, false,
                                                "buffer " + std::to_string(next_));
    ++next_;
    std::memcpy(memory_->Host(address), values.data(), values.size() * sizeof(T));
    memory_->MarkWritten(address, values.size() * sizeof(T));
    return address;
  }
  /// Enables full checks. Global memory is checked only in buffers created after this call.
  void CheckEverything() {
    options.full_checks = true;
    memory_->Watch(std::make_unique<GlobalChecker>(kernels_->global_granule_shift()));
  }
  /// Allocates memory that nothing has written.
  template <class T>
  uint64_t Empty(size_t count) {
    const uint64_t address =
        *memory_->Allocate(count * sizeof(T), next_, false, "buffer " + std::to_string(next_));
    ++next_;
    return address;
  }
  template <class T>
  std::vector<T> Read(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory_->Host(address), count * sizeof(T));
    return values;
  }
  GlobalMemory& memory() { return *memory_; }
  const KernelModule& kernels() const { return *kernels_; }

  template <class... Args>
  LaunchOutcome Launch(const std::string& name, plan::Dim3 grid, plan::Dim3 block, Args... args) {
    const Kernel* kernel = kernels_->Find(name);
    EXPECT_NE(kernel, nullptr) << name;
    if (kernel == nullptr) return {};
    std::vector<std::byte> parameters;
    [[maybe_unused]] auto push = [&](auto value) {
      while (parameters.size() % sizeof value != 0) parameters.push_back(std::byte{0});
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      parameters.insert(parameters.end(), bytes, bytes + sizeof value);
    };
    (push(args), ...);
    LaunchRequest request;
    request.kernel = kernel;
    request.grid = grid;
    request.block = block;
    request.cluster = cluster;
    request.lone_clusters = lone_clusters;
    request.only = only;
    request.dynamic_shared = dynamic_shared;
    request.cooperative = cooperative;
    request.resident_blocks = resident_blocks;
    request.stall_check_interval = stall_check_interval;
    request.in_order = in_order;
    request.parameters = parameters;
    request.shadows = shadows;
    ThreadPool pool(threads);
    auto outcome = RunLaunch(request, *memory_, options, pool);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
    return outcome ? *outcome : LaunchOutcome{};
  }

  engine::RunOptions options;
  ShadowRun* shadows = nullptr;
  plan::Dim3 cluster;
  bool lone_clusters = false;
  std::span<const uint64_t> only;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  uint64_t resident_blocks = 0;
  int64_t stall_check_interval = 0;
  bool in_order = false;
  int threads = 2;

 private:
  std::unique_ptr<KernelModule> kernels_;
  std::unique_ptr<GlobalMemory> memory_;
  int next_ = 0;
};

inline std::string TestData(const std::string& name) {
  std::ifstream file(std::string(CUPEL_SOURCE_DIR) + "/src/emu/testdata/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
/// The line of a CUDA file that is marked "WAITS name".
inline int MarkedLine(const std::string& file, const std::string& name) {
  std::istringstream text(TestData(file));
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    if (line.ends_with("// WAITS " + name)) return number;
  }
  ADD_FAILURE() << name << " is not marked";
  return 0;
}
inline std::string TestKernels() { return TestData("kernels.ptx"); }

/// All findings on one line, for messages of failed expectations.
inline std::string Summary(const LaunchOutcome& outcome) {
  std::string text = outcome.unsupported;
  for (const records::Finding& finding : outcome.findings) {
    text += "[" + finding.code + " line " + std::to_string(finding.line) + ": " + finding.message +
            " " + finding.where + "] ";
  }
  return text;
}

}  // namespace cupel::emu
