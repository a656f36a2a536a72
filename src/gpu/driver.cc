// SPDX-License-Identifier: Apache-2.0
#include "gpu/driver.h"

#include <fmt/format.h>

#include "gpu/library.h"

namespace cupel::gpu {
namespace {

/// Null, or the name of an entry point that the library lacks.
const char* Resolve(void* library, Driver* driver) {
  EntryPoints entry(library);
  entry.Find(driver->init, "cuInit");
  entry.Find(driver->version, "cuDriverGetVersion");
  entry.Find(driver->device_count, "cuDeviceGetCount");
  entry.Find(driver->device_get, "cuDeviceGet");
  entry.Find(driver->device_name, "cuDeviceGetName");
  entry.Find(driver->device_attribute, "cuDeviceGetAttribute");
  entry.Find(driver->device_total_memory, "cuDeviceTotalMem_v2");
  entry.Find(driver->device_uuid, "cuDeviceGetUuid");
  entry.Find(driver->context_retain, "cuDevicePrimaryCtxRetain");
  entry.Find(driver->context_release, "cuDevicePrimaryCtxRelease_v2");
  entry.Find(driver->context_reset, "cuDevicePrimaryCtxReset_v2");
  entry.Find(driver->context_set_current, "cuCtxSetCurrent");
  entry.Find(driver->context_synchronize, "cuCtxSynchronize");
  entry.Find(driver->context_reset_persisting_l2, "cuCtxResetPersistingL2Cache");
  entry.Find(driver->module_load, "cuModuleLoadDataEx");
  entry.Find(driver->module_unload, "cuModuleUnload");
  entry.Find(driver->module_function, "cuModuleGetFunction");
  entry.Find(driver->module_global, "cuModuleGetGlobal_v2");
  entry.FindOptional(driver->parameter_info, "cuFuncGetParamInfo");
  entry.Find(driver->function_set, "cuFuncSetAttribute");
  entry.Find(driver->memory_allocate, "cuMemAlloc_v2");
  entry.Find(driver->memory_free, "cuMemFree_v2");
  entry.Find(driver->memory_info, "cuMemGetInfo_v2");
  entry.Find(driver->host_allocate, "cuMemAllocHost_v2");
  entry.Find(driver->host_free, "cuMemFreeHost");
  entry.Find(driver->host_register, "cuMemHostRegister_v2");
  entry.Find(driver->host_unregister, "cuMemHostUnregister");
  entry.Find(driver->copy_in_now, "cuMemcpyHtoD_v2");
  entry.Find(driver->copy_in, "cuMemcpyHtoDAsync_v2");
  entry.Find(driver->copy_out, "cuMemcpyDtoHAsync_v2");
  entry.Find(driver->copy_across, "cuMemcpyDtoDAsync_v2");
  entry.Find(driver->fill_8, "cuMemsetD8Async");
  entry.Find(driver->fill_16, "cuMemsetD16Async");
  entry.Find(driver->fill_32, "cuMemsetD32Async");
  entry.Find(driver->launch, "cuLaunchKernelEx");
  entry.FindOptional(driver->tensor_map_tiled, "cuTensorMapEncodeTiled");
  entry.FindOptional(driver->tensor_map_im2col, "cuTensorMapEncodeIm2col");
  entry.Find(driver->stream_create, "cuStreamCreate");
  entry.Find(driver->stream_destroy, "cuStreamDestroy_v2");
  entry.Find(driver->stream_query, "cuStreamQuery");
  entry.Find(driver->stream_synchronize, "cuStreamSynchronize");
  entry.Find(driver->event_create, "cuEventCreate");
  entry.Find(driver->event_destroy, "cuEventDestroy_v2");
  entry.Find(driver->event_record, "cuEventRecordWithFlags");
  entry.Find(driver->event_elapsed, "cuEventElapsedTime");
  entry.Find(driver->capture_begin, "cuStreamBeginCapture_v2");
  entry.Find(driver->capture_end, "cuStreamEndCapture");
  entry.Find(driver->capture_info, "cuStreamGetCaptureInfo_v2");
  entry.Find(driver->capture_dependencies, "cuStreamUpdateCaptureDependencies");
  entry.Find(driver->graph_instantiate, "cuGraphInstantiateWithFlags");
  entry.Find(driver->graph_launch, "cuGraphLaunch");
  entry.Find(driver->graph_exec_destroy, "cuGraphExecDestroy");
  entry.Find(driver->graph_destroy, "cuGraphDestroy");
  entry.Find(driver->error_name, "cuGetErrorName");
  entry.Find(driver->error_text, "cuGetErrorString");
  return entry.missing();
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
              "check nvidia-smi and the system log");
}

Result<std::shared_ptr<const Driver>> OpenDriver() {
  void* library = OpenLibrary({"libcuda.so.1"});
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
