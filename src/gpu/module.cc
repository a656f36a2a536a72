// SPDX-License-Identifier: Apache-2.0
#include "gpu/module.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

namespace cupel::gpu {

Result<Module> Module::Load(const Device& device, const std::string& image, const char* what) {
  constexpr int kErrorLog = 5, kErrorLogBytes = 6;  // CU_JIT_ERROR_LOG_BUFFER…
  std::string log(1 << 14, '\0');
  std::array<int, 2> options{kErrorLog, kErrorLogBytes};
  std::array<void*, 2> values{log.data(), std::bit_cast<void*>(log.size())};
  CuModule module = nullptr;
  const CuResult code =
      device.driver().module_load(&module, image.c_str(), 2, options.data(), values.data());
  if (code == 0) return Module(device, module);
  return Fail(ErrorCode::kEnvironment,
              fmt::format("{} does not load {}: {}{}{}", device.name(), what,
                          device.driver().Describe(code), log[0] == '\0' ? "" : "; ", log.c_str()),
              "build for the GPU's own architecture (--arch)");
}

Module::Module(Module&& other) noexcept
    : device_(other.device_), module_(std::exchange(other.module_, nullptr)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(module_, other.module_);
  return *this;
}

Module::~Module() {
  if (module_ != nullptr) device_->driver().module_unload(module_);
}

CuFunction Module::Find(const std::string& name) const {
  CuFunction function = nullptr;
  return device_->driver().module_function(&function, module_, name.c_str()) == 0 ? function
                                                                                  : nullptr;
}

Result<ModuleVariables> ModuleVariables::Save(const Device& device, const Module& module,
                                              std::span<const std::string> names) {
  const Driver& driver = device.driver();
  std::vector<Variable> variables;
  uint64_t total = 0;
  for (const std::string& name : names) {
    Variable variable;
    size_t bytes = 0;
    if (driver.module_global(&variable.address, &bytes, module.get(), name.c_str()) != 0) continue;
    if (bytes == 0) continue;
    variable.bytes = bytes;
    variable.at = total;
    total += (bytes + 511) / 512 * 512;
    variables.push_back(variable);
  }
  TRY_ASSIGN(Block copy, Block::Allocate(device, total));
  ModuleVariables saved(device, std::move(copy));
  TRY(driver.Check(
      driver.fill_32(saved.copy_.address(), 0, saved.copy_.capacity() / 4, device.stream()),
      "filling memory"));
  for (const Variable& variable : variables) {
    TRY(driver.Check(driver.copy_across(saved.copy_.address() + variable.at, variable.address,
                                        variable.bytes, device.stream()),
                     "saving a kernel's variables"));
  }
  saved.variables_ = std::move(variables);
  return saved;
}

Status ModuleVariables::Restore() const {
  const Driver& driver = device_->driver();
  for (const Variable& variable : variables_) {
    TRY(driver.Check(driver.copy_across(variable.address, copy_.address() + variable.at,
                                        variable.bytes, device_->stream()),
                     "restoring a kernel's variables"));
  }
  return {};
}

}  // namespace cupel::gpu
