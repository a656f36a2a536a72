// Kernels on a GPU by the CUDA driver, and on the fast interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "fast.h"
#include "gpu/driver.h"
#include "gpu/tensor_map.h"
#include "ptx/parser.h"
#include "runner.h"

namespace cupel::reference {
namespace {

class Gpu : public Runner {
 public:
  explicit Gpu(int optimization) : optimization_(optimization) {}
  ~Gpu() override {
    if (module_ != nullptr) driver_->module_unload(module_);
  }
  std::string Open() {
    auto driver = gpu::OpenDriver();
    if (!driver) return driver.error().message;
    driver_ = *driver;
    if (const int code = driver_->device_get(&device_, 0); code != 0) {
      return Text("cuDeviceGet", code);
    }
    int major = 0, minor = 0;
    std::array<char, 128> name{};
    driver_->device_name(name.data(), static_cast<int>(name.size()) - 1, device_);
    constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
    driver_->device_attribute(&major, kMajor, device_);
    driver_->device_attribute(&minor, kMinor, device_);
    name_ = fmt::format("{} (sm_{}{})", name.data(), major, minor);
    if (major < 9) return name_ + " is older than sm_90, which the kernels need";
    return Enter();
  }
  std::string Name() const override { return name_; }

  std::string Load(const std::string& text) override {
    if (module_ != nullptr) driver_->module_unload(module_);
    module_ = nullptr;
    text_ = text;
    // CU_JIT_ERROR_LOG_BUFFER…, CU_JIT_OPTIMIZATION_LEVEL
    constexpr int kErrorLog = 5, kErrorLogBytes = 6, kOptimizationLevel = 7;
    std::string log(1 << 16, '\0');
    std::array<int, 3> options{kErrorLog, kErrorLogBytes, kOptimizationLevel};
    std::array<void*, 3> values{log.data(), reinterpret_cast<void*>(log.size()),
                                reinterpret_cast<void*>(static_cast<uintptr_t>(optimization_))};
    const int code = driver_->module_load(&module_, text.c_str(), 3, options.data(), values.data());
    if (code == 0) return {};
    module_ = nullptr;
    return Text("cuModuleLoadDataEx", code) + "\n" + log.c_str();
  }

  std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                  std::span<std::vector<std::byte>* const> buffers,
                  std::span<const MapParameter> maps) override {
    gpu::CuFunction function = nullptr;
    if (const int code = driver_->module_function(&function, module_, kernel.c_str()); code != 0) {
      return Text("cuModuleGetFunction", code);
    }
    std::vector<uint64_t> addresses(buffers.size());
    std::vector<gpu::DriverTensorMap> encoded(maps.size());
    std::vector<void*> arguments;
    std::string wrong;
    auto check = [&](const char* call, int code) {
      if (code != 0 && wrong.empty()) wrong = Text(call, code);
    };
    for (size_t i = 0; i < buffers.size(); ++i) {
      check("cuMemAlloc", driver_->memory_allocate(&addresses[i], buffers[i]->size()));
      check("cuMemcpyHtoD",
            driver_->copy_in_now(addresses[i], buffers[i]->data(), buffers[i]->size()));
      arguments.push_back(&addresses[i]);
    }
    for (size_t i = 0; i < maps.size(); ++i) {
      check("cuTensorMapEncode",
            gpu::EncodeTensorMap(*driver_, maps[i].map, addresses[maps[i].buffer], &encoded[i]));
      arguments.push_back(&encoded[i]);
    }
    if (wrong.empty()) {
      gpu::CuLaunchConfig config;
      config.grid[0] = grid;
      config.block[0] = block;
      check("cuLaunchKernelEx", driver_->launch(&config, function, arguments.data(), nullptr));
      check("cuCtxSynchronize", driver_->context_synchronize());
      if (!wrong.empty()) {
        const std::string again = Renew();
        return again.empty() ? wrong : wrong + "; " + again;
      }
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (wrong.empty()) {
        check("cuMemcpyDtoHAsync",
              driver_->copy_out(buffers[i]->data(), addresses[i], buffers[i]->size(), nullptr));
        check("cuCtxSynchronize", driver_->context_synchronize());
      }
      if (addresses[i] != 0) driver_->memory_free(addresses[i]);
    }
    return wrong;
  }

 private:
  std::string Text(const char* call, int code) const {
    return fmt::format("{}: {}", call, driver_->Describe(code));
  }
  std::string Enter() {
    gpu::CuContext context = nullptr;
    if (const int code = driver_->context_retain(&context, device_); code != 0) {
      return Text("cuDevicePrimaryCtxRetain", code);
    }
    if (const int code = driver_->context_set_current(context); code != 0) {
      return Text("cuCtxSetCurrent", code);
    }
    return {};
  }
  /// Makes a new context, because after a fault every call in the context returns that fault.
  std::string Renew() {
    module_ = nullptr;
    driver_->context_reset(device_);
    const std::string wrong = Enter();
    return wrong.empty() ? Load(text_) : wrong;
  }

  std::shared_ptr<const gpu::Driver> driver_;
  std::string name_;
  std::string text_;  // of the loaded module
  gpu::CuDevice device_ = 0;
  int optimization_;
  gpu::CuModule module_ = nullptr;
};

class Emulated : public Runner {
 public:
  std::string Name() const override { return "the fast interpreter"; }
  std::string Load(const std::string& text) override {
    auto module = ptx::Parse(text);
    if (!module) return module.error().message;
    fast_ = std::make_unique<Fast>(*module, 2);
    return {};
  }
  std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                  std::span<std::vector<std::byte>* const> buffers,
                  std::span<const MapParameter> maps) override {
    return fast_->Run(kernel, grid, block, buffers, maps);
  }

 private:
  std::unique_ptr<Fast> fast_;
};

}  // namespace

std::unique_ptr<Runner> FastRunner() { return std::make_unique<Emulated>(); }

std::unique_ptr<Runner> GpuRunner(int optimization, std::string* reason) {
  auto gpu = std::make_unique<Gpu>(optimization);
  *reason = gpu->Open();
  if (!reason->empty()) return nullptr;
  return gpu;
}

}  // namespace cupel::reference
