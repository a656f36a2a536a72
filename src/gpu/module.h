// A kernel's code on the GPU, and the variables in which it may keep state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/block.h"
#include "gpu/device.h"

namespace cupel::gpu {

/// A module of the driver. The destructor unloads it.
class Module {
 public:
  /// `image` is a cubin, or zero-terminated PTX that the driver compiles.
  static Result<Module> Load(const Device& device, const std::string& image, const char* what);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();
  CuModule get() const { return module_; }
  /// Null if there is no kernel of that name.
  CuFunction Find(const std::string& name) const;

 private:
  Module(const Device& device, CuModule module) : device_(&device), module_(module) {}
  const Device* device_;
  CuModule module_ = nullptr;
};

/// The values that the variables of a program's modules had when they were loaded.
class ModuleVariables {
 public:
  /// `names`, by module, of variables in global and constant memory. Variables that the compiler
  /// removed are skipped.
  static Result<ModuleVariables> Save(const Device& device, std::span<const Module> modules,
                                      std::span<const std::vector<std::string>> names);
  /// Enqueues copies that restore all variables.
  Status Restore() const;
  /// The variables that have changed: their modules' indices, and their names. Waits for the GPU.
  Result<std::vector<std::pair<int, std::string>>> Changed() const;
  /// Fills the variables that have changed with random numbers (engine::Scramble).
  Status Scramble(uint64_t seed) const;
  /// The saved copies. Kernels must not write to this memory.
  const Block& copies() const { return copy_; }

 private:
  struct Variable {
    int module = 0;
    std::string name;
    CuPointer address = 0;
    uint64_t bytes = 0, at = 0;  // `at` is the position in the copy
  };
  ModuleVariables(const Device& device, Block copy) : device_(&device), copy_(std::move(copy)) {}
  Result<bool> IsChanged(const Variable& variable) const;
  const Device* device_;
  Block copy_;
  std::vector<Variable> variables_;
};

}  // namespace cupel::gpu
