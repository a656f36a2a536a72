// SPDX-License-Identifier: Apache-2.0
#include "gpu/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include "base/random.h"
#include "engine/state.h"

namespace cupel::gpu {
namespace {

constexpr std::chrono::milliseconds kReadTimeout{20'000};

}  // namespace

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
              fmt::format("{} cannot load {}: {}{}{}", device.name(), what,
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

Result<ModuleVariables> ModuleVariables::Save(const Device& device, std::span<const Module> modules,
                                              std::span<const std::vector<std::string>> names) {
  const Driver& driver = device.driver();
  std::vector<Variable> variables;
  uint64_t total = 0;
  for (size_t i = 0; i < modules.size() && i < names.size(); ++i) {
    for (const std::string& name : names[i]) {
      Variable variable;
      variable.module = static_cast<int>(i);
      variable.name = name;
      size_t bytes = 0;
      if (driver.module_global(&variable.address, &bytes, modules[i].get(), name.c_str()) != 0 ||
          bytes == 0) {
        continue;
      }
      variable.bytes = bytes;
      variable.at = total;
      total += (bytes + 511) / 512 * 512;
      variables.push_back(variable);
    }
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

Result<bool> ModuleVariables::IsChanged(const Variable& variable) const {
  const Driver& driver = device_->driver();
  constexpr uint64_t kPiece = 1 << 20;
  std::vector<char> now, before;
  for (uint64_t at = 0; at < variable.bytes; at += kPiece) {
    const uint64_t bytes = std::min(kPiece, variable.bytes - at);
    now.resize(bytes);
    before.resize(bytes);
    TRY(driver.Check(driver.copy_out(now.data(), variable.address + at, bytes, device_->stream()),
                     "reading a kernel's variables"));
    TRY(driver.Check(driver.copy_out(before.data(), copy_.address() + variable.at + at, bytes,
                                     device_->stream()),
                     "reading a kernel's variables"));
    CuResult code = 0;
    TRY(device_->Await(kReadTimeout, &code));
    TRY(driver.Check(code, "reading a kernel's variables"));
    if (now != before) return true;
  }
  return false;
}

Result<std::vector<std::pair<int, std::string>>> ModuleVariables::Changed() const {
  std::vector<std::pair<int, std::string>> changed;
  for (const Variable& variable : variables_) {
    TRY_ASSIGN(const bool is_changed, IsChanged(variable));
    if (is_changed) changed.emplace_back(variable.module, variable.name);
  }
  return changed;
}

Status ModuleVariables::Scramble(uint64_t seed) const {
  const Driver& driver = device_->driver();
  Random random(seed);
  for (const Variable& variable : variables_) {
    TRY_ASSIGN(const bool is_changed, IsChanged(variable));
    if (!is_changed) continue;
    std::vector<char> bytes(variable.bytes);
    engine::Scramble(std::as_writable_bytes(std::span(bytes)), random);
    TRY(driver.Check(
        driver.copy_in(variable.address, bytes.data(), bytes.size(), device_->stream()),
        "writing a kernel's variables"));
    CuResult code = 0;
    TRY(device_->Await(kReadTimeout, &code));
    TRY(driver.Check(code, "writing a kernel's variables"));
  }
  return {};
}

}  // namespace cupel::gpu
