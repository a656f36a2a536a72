// A kernel's code on the GPU, and the variables it may keep state in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/block.h"
#include "gpu/device.h"

namespace cupel::gpu {

/// A module of the driver; unloaded at the end.
class Module {
 public:
  /// `image`: a cubin, or PTX with a zero at its end, which the driver compiles.
  static Result<Module> Load(const Device& device, const std::string& image, const char* what);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();
  CuModule get() const { return module_; }
  /// Null when there is none of that name.
  CuFunction Find(const std::string& name) const;

 private:
  Module(const Device& device, CuModule module) : device_(&device), module_(module) {}
  const Device* device_;
  CuModule module_ = nullptr;
};

/// What a module's variables held when it was loaded.
class ModuleVariables {
 public:
  /// `names`: of variables in global and constant memory; those that the code dropped are left out.
  static Result<ModuleVariables> Save(const Device& device, const Module& module,
                                      std::span<const std::string> names);
  /// Enqueues that all hold it again.
  Status Restore() const;
  /// Which of them hold something else, by name. Waits for the GPU.
  Result<std::vector<std::string>> Changed() const;
  /// Fills those that hold something else with random numbers, positive as any word.
  Status Scramble(uint64_t seed) const;
  /// Where the copies lie: nobody may write there.
  const Block& copies() const { return copy_; }

 private:
  struct Variable {
    std::string name;
    CuPointer address = 0;
    uint64_t bytes = 0, at = 0;  // `at` of the copy
  };
  ModuleVariables(const Device& device, Block copy) : device_(&device), copy_(std::move(copy)) {}
  Result<bool> HoldsOther(const Variable& variable) const;
  const Device* device_;
  Block copy_;
  std::vector<Variable> variables_;
};

}  // namespace cupel::gpu
