// SPDX-License-Identifier: Apache-2.0
#include "gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cupel::gpu {
namespace {

/// Null, or the name of an entry point that the library lacks.
const char* Resolve(void* library, Driver* driver) {
  const char* missing = nullptr;
  auto find = [&](auto& function, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find(driver->init, "cuInit");
  find(driver->version, "cuDriverGetVersion");
  find(driver->device_count, "cuDeviceGetCount");
  find(driver->device_get, "cuDeviceGet");
  find(driver->device_name, "cuDeviceGetName");
  find(driver->device_attribute, "cuDeviceGetAttribute");
  find(driver->device_total_memory, "cuDeviceTotalMem_v2");
  find(driver->device_uuid, "cuDeviceGetUuid");
  find(driver->context_retain, "cuDevicePrimaryCtxRetain");
  find(driver->context_release, "cuDevicePrimaryCtxRelease_v2");
  find(driver->context_set_current, "cuCtxSetCurrent");
  find(driver->context_synchronize, "cuCtxSynchronize");
  find(driver->context_reset_persisting_l2, "cuCtxResetPersistingL2Cache");
  find(driver->module_load, "cuModuleLoadDataEx");
  find(driver->module_unload, "cuModuleUnload");
  find(driver->module_function, "cuModuleGetFunction");
  find(driver->module_global, "cuModuleGetGlobal_v2");
  find(driver->function_set, "cuFuncSetAttribute");
  find(driver->memory_allocate, "cuMemAlloc_v2");
  find(driver->memory_free, "cuMemFree_v2");
  find(driver->memory_info, "cuMemGetInfo_v2");
  find(driver->host_allocate, "cuMemAllocHost_v2");
  find(driver->host_free, "cuMemFreeHost");
  find(driver->copy_in_now, "cuMemcpyHtoD_v2");
  find(driver->copy_in, "cuMemcpyHtoDAsync_v2");
  find(driver->copy_out, "cuMemcpyDtoHAsync_v2");
  find(driver->copy_across, "cuMemcpyDtoDAsync_v2");
  find(driver->fill_8, "cuMemsetD8Async");
  find(driver->fill_16, "cuMemsetD16Async");
  find(driver->fill_32, "cuMemsetD32Async");
  find(driver->launch, "cuLaunchKernelEx");
  find(driver->stream_create, "cuStreamCreate");
  find(driver->stream_destroy, "cuStreamDestroy_v2");
  find(driver->stream_query, "cuStreamQuery");
  find(driver->stream_synchronize, "cuStreamSynchronize");
  find(driver->event_create, "cuEventCreate");
  find(driver->event_destroy, "cuEventDestroy_v2");
  find(driver->event_record, "cuEventRecordWithFlags");
  find(driver->event_elapsed, "cuEventElapsedTime");
  find(driver->capture_begin, "cuStreamBeginCapture_v2");
  find(driver->capture_end, "cuStreamEndCapture");
  find(driver->capture_info, "cuStreamGetCaptureInfo_v2");
  find(driver->capture_dependencies, "cuStreamUpdateCaptureDependencies");
  find(driver->graph_instantiate, "cuGraphInstantiateWithFlags");
  find(driver->graph_launch, "cuGraphLaunch");
  find(driver->graph_exec_destroy, "cuGraphExecDestroy");
  find(driver->graph_destroy, "cuGraphDestroy");
  find(driver->error_name, "cuGetErrorName");
  find(driver->error_text, "cuGetErrorString");
  return missing;
}

}  // namespace

std::string Driver::Describe(CuResult code) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(code, &name) != 0 || name == nullptr) name = "unknown error";
  if (error_text(code, &text) != 0 || text == nullptr) text = "no description";
  return fmt::format("{}: {} ({})", name, text, code);
}

Status Driver::Check(CuResult code, const char* what) const {
  if (code == 0) return {};
  return Fail(ErrorCode::kEnvironment, fmt::format("{} failed: {}", what, Describe(code)),
              "look at nvidia-smi and the system's log");
}

Result<std::shared_ptr<const Driver>> OpenDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Fail(ErrorCode::kEnvironment, "there is no NVIDIA driver: libcuda.so.1 was not found",
                "use --device emu");
  }
  auto driver = std::make_shared<Driver>();
  if (const char* missing = Resolve(library, driver.get())) {
    return Fail(ErrorCode::kEnvironment,
                fmt::format("the NVIDIA driver is too old: it has no {}", missing),
                "install the driver of CUDA 12 or later, or use --device emu");
  }
  TRY(driver->Check(driver->init(0), "starting the NVIDIA driver"));
  return std::shared_ptr<const Driver>(std::move(driver));
}

}  // namespace cupel::gpu
