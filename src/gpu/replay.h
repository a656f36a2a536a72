// Puts the nodes of a bound plan into a GPU's stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "gpu/memory.h"

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

/// What stands in the way of a node: at most one of the two is set.
struct Refusal {
  std::optional<engine::Finding> finding;
  std::string unsupported;
  bool ok() const { return !finding && unsupported.empty(); }
};

/// Enqueues nodes; borrows its arguments. What the candidate asked for and the driver refuses is a
/// Refusal; what runs wrong later shows when the stream is awaited.
class Replay {
 public:
  Replay(const Device& device, const Module& module, const PlanMemory& memory)
      : device_(device), module_(module), memory_(memory) {}

  Result<Refusal> Enqueue(const plan::Node& node);

 private:
  Result<Refusal> Run(const plan::Launch& launch);
  Result<Refusal> Run(const plan::Copy& copy);
  Result<Refusal> Run(const plan::Upload& upload);
  Result<Refusal> Run(const plan::Fill& fill);
  Result<Refusal> Run(const plan::CopyView& copy);
  Result<Refusal> Run(const plan::Gemm& gemm);
  Refusal Outside(const plan::Address& address, uint64_t bytes, const char* who) const;

  const Device& device_;
  const Module& module_;
  const PlanMemory& memory_;
  std::map<std::string, Module> copies_;  // by their PTX
};

}  // namespace cupel::gpu
