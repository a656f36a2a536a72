// The CUDA driver by dlopen: prototypes are declared here, so that neither headers nor a driver are
// needed to build.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "fast.h"
#include "ptx/parser.h"
#include "runner.h"

namespace cupel::reference {
namespace {

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*reset)(int) = nullptr;
  int (*load)(void**, const void*, unsigned, int*, void**) = nullptr;
  int (*unload)(void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*allocate)(uint64_t*, size_t) = nullptr;
  int (*release)(uint64_t) = nullptr;
  int (*upload)(uint64_t, const void*, size_t) = nullptr;
  int (*download)(void*, uint64_t, size_t) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**) = nullptr;
  int (*synchronize)() = nullptr;
  int (*error)(int, const char**) = nullptr;

  std::string Open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return "no libcuda.so.1";
    std::string missing;
    auto find = [&](auto& function_pointer, const char* symbol) {
      function_pointer = reinterpret_cast<std::remove_reference_t<decltype(function_pointer)>>(
          dlsym(library, symbol));
      if (function_pointer == nullptr) missing = symbol;
    };
    find(init, "cuInit");
    find(device, "cuDeviceGet");
    find(name, "cuDeviceGetName");
    find(attribute, "cuDeviceGetAttribute");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(set_current, "cuCtxSetCurrent");
    find(reset, "cuDevicePrimaryCtxReset_v2");
    find(load, "cuModuleLoadDataEx");
    find(unload, "cuModuleUnload");
    find(function, "cuModuleGetFunction");
    find(allocate, "cuMemAlloc_v2");
    find(release, "cuMemFree_v2");
    find(upload, "cuMemcpyHtoD_v2");
    find(download, "cuMemcpyDtoH_v2");
    find(launch, "cuLaunchKernel");
    find(synchronize, "cuCtxSynchronize");
    find(error, "cuGetErrorString");
    return missing.empty() ? "" : "libcuda.so.1 lacks " + missing;
  }
  std::string Text(const char* call, int code) const {
    const char* text = nullptr;
    if (error(code, &text) != 0 || text == nullptr) text = "unknown error";
    return fmt::format("{}: {} ({})", call, text, code);
  }
};

class Gpu : public Runner {
 public:
  explicit Gpu(int optimization) : optimization_(optimization) {}
  ~Gpu() override {
    if (module_ != nullptr) driver_.unload(module_);
  }
  std::string Open() {
    const std::string missing = driver_.Open();
    if (!missing.empty()) return missing;
    if (const int code = driver_.init(0); code != 0) return driver_.Text("cuInit", code);
    int device = 0, major = 0, minor = 0;
    if (const int code = driver_.device(&device, 0); code != 0) {
      return driver_.Text("cuDeviceGet", code);
    }
    std::array<char, 128> name{};
    driver_.name(name.data(), static_cast<int>(name.size()) - 1, device);
    constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
    driver_.attribute(&major, kMajor, device);
    driver_.attribute(&minor, kMinor, device);
    name_ = fmt::format("{} (sm_{}{})", name.data(), major, minor);
    if (major < 9) return name_ + " is older than sm_90, which the kernels need";
    device_ = device;
    return Enter();
  }
  std::string Name() const override { return name_; }

  std::string Load(const std::string& text) override {
    if (module_ != nullptr) driver_.unload(module_);
    module_ = nullptr;
    text_ = text;
    // CU_JIT_ERROR_LOG_BUFFER…, CU_JIT_OPTIMIZATION_LEVEL
    constexpr int kErrorLog = 5, kErrorLogBytes = 6, kOptimizationLevel = 7;
    std::string log(1 << 16, '\0');
    std::array<int, 3> options{kErrorLog, kErrorLogBytes, kOptimizationLevel};
    std::array<void*, 3> values{log.data(), reinterpret_cast<void*>(log.size()),
                                reinterpret_cast<void*>(static_cast<uintptr_t>(optimization_))};
    const int code = driver_.load(&module_, text.c_str(), 3, options.data(), values.data());
    if (code == 0) return {};
    module_ = nullptr;
    return driver_.Text("cuModuleLoadDataEx", code) + "\n" + log.c_str();
  }

  std::string Run(const std::string& kernel, uint32_t grid, uint32_t block,
                  std::span<std::vector<std::byte>* const> buffers) override {
    void* function = nullptr;
    if (const int code = driver_.function(&function, module_, kernel.c_str()); code != 0) {
      return driver_.Text("cuModuleGetFunction", code);
    }
    std::vector<uint64_t> addresses(buffers.size());
    std::vector<void*> arguments;
    std::string wrong;
    auto check = [&](const char* call, int code) {
      if (code != 0 && wrong.empty()) wrong = driver_.Text(call, code);
    };
    for (size_t i = 0; i < buffers.size(); ++i) {
      check("cuMemAlloc", driver_.allocate(&addresses[i], buffers[i]->size()));
      check("cuMemcpyHtoD", driver_.upload(addresses[i], buffers[i]->data(), buffers[i]->size()));
      arguments.push_back(&addresses[i]);
    }
    if (wrong.empty()) {
      check("cuLaunchKernel", driver_.launch(function, grid, 1, 1, block, 1, 1, 0, nullptr,
                                             arguments.data(), nullptr));
      check("cuCtxSynchronize", driver_.synchronize());
      if (!wrong.empty()) {
        const std::string again = Renew();
        return again.empty() ? wrong : wrong + "; " + again;
      }
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (wrong.empty()) {
        check("cuMemcpyDtoH",
              driver_.download(buffers[i]->data(), addresses[i], buffers[i]->size()));
      }
      if (addresses[i] != 0) driver_.release(addresses[i]);
    }
    return wrong;
  }

 private:
  std::string Enter() {
    void* context = nullptr;
    if (const int code = driver_.retain(&context, device_); code != 0) {
      return driver_.Text("cuDevicePrimaryCtxRetain", code);
    }
    if (const int code = driver_.set_current(context); code != 0) {
      return driver_.Text("cuCtxSetCurrent", code);
    }
    return {};
  }
  /// Resets the device, because after a fault every call in the context returns that fault.
  std::string Renew() {
    module_ = nullptr;
    driver_.reset(device_);
    const std::string wrong = Enter();
    return wrong.empty() ? Load(text_) : wrong;
  }

  Driver driver_;
  std::string name_;
  std::string text_;  // of the loaded module
  int device_ = 0;
  int optimization_;
  void* module_ = nullptr;
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
                  std::span<std::vector<std::byte>* const> buffers) override {
    return fast_->Run(kernel, grid, block, buffers);
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
