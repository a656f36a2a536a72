// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "gpu/blas.h"
#include "gpu/block.h"

namespace cupel::gpu {
namespace {

// CUdevice_attribute
constexpr int kMajor = 75, kMinor = 76;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr size_t kStagingBytes = size_t{16} << 20;
constexpr CuResult kNotReady = 600;  // CUDA_ERROR_NOT_READY

}  // namespace

Device::Device(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {}

Result<std::unique_ptr<Device>> Device::Open(std::shared_ptr<const Driver> driver, int ordinal) {
  int count = 0;
  TRY(driver->Check(driver->device_count(&count), "counting GPUs"));
  if (ordinal < 0 || ordinal >= count) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU {}: the driver found {}", ordinal, count),
                count == 0 ? "use --device emu" : "GPUs are numbered from 0");
  }
  std::unique_ptr<Device> device(new Device(std::move(driver)));
  const Driver& d = *device->driver_;
  TRY(d.Check(d.device_get(&device->device_, ordinal), "opening the GPU"));
  std::array<char, 256> name{};
  TRY(d.Check(d.device_name(name.data(), static_cast<int>(name.size()) - 1, device->device_),
              "reading the GPU's name"));
  device->name_ = name.data();
  CuContext context = nullptr;
  TRY(d.Check(d.context_retain(&context, device->device_), "creating a context on the GPU"));
  TRY(d.Check(d.context_set_current(context), "using the GPU's context"));
  TRY(d.Check(d.stream_create(&device->stream_, kNonBlocking), "creating a stream"));
  return device;
}

Device::~Device() {
  if (stream_ == nullptr) return;
  staging_.reset();
  blas_.reset();
  driver_->stream_destroy(stream_);
  driver_->context_release(device_);
}

int Device::Attribute(int which) const {
  int value = 0;
  return driver_->device_attribute(&value, which, device_) == 0 ? value : 0;
}

std::string Device::Uuid() const {
  CuUuid uuid{};
  if (driver_->device_uuid(&uuid, device_) != 0) return {};
  std::string text = "GPU";
  for (size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

Result<Blas*> Device::blas() const {
  if (!blas_) {
    TRY_ASSIGN(blas_, Blas::Open(*this));
  }
  return blas_.get();
}

Result<std::span<std::byte>> Device::Staging() const {
  if (!staging_) {
    TRY_ASSIGN(HostBlock block, HostBlock::Allocate(*this, kStagingBytes));
    staging_ = std::make_unique<HostBlock>(std::move(block));
  }
  return std::span(staging_->data(), kStagingBytes);
}

std::string Device::Capability() const {
  return fmt::format("{}.{}", Attribute(kMajor), Attribute(kMinor));
}

std::string Device::Target() const {
  return fmt::format("sm_{}{}", Attribute(kMajor), Attribute(kMinor));
}

Status Device::Await(std::chrono::milliseconds deadline, CuResult* code, bool spin) const {
  using SteadyClock = std::chrono::steady_clock;
  const auto start = SteadyClock::now();
  const auto end = start + deadline;
  auto pause = std::chrono::microseconds(5);
  for (;;) {
    *code = driver_->stream_query(stream_);
    if (*code != kNotReady) return {};
    if (SteadyClock::now() > end) {
      return Fail(ErrorCode::kTimeout,
                  fmt::format("the GPU was still busy after {} ms", deadline.count()));
    }
    // Poll without pauses at first, for short work. Later sleep in between.
    if (spin || SteadyClock::now() - start < std::chrono::microseconds(200)) continue;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
}

Result<device::Description> DescriptionOf(const Device& device) {
  for (const device::Description& known : device::All()) {
    if (known.full_name == device.name()) return known;
  }
  for (const device::Description& known : device::All()) {
    if (fmt::format("{}.{}", known.major, known.minor) != device.Capability()) continue;
    device::Description like = known;
    like.full_name = device.name();
    like.sm_count = std::max(1, device.Attribute(kMultiprocessors));
    return like;
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("{} has compute capability {}, which cupel does not support",
                          device.name(), device.Capability()),
              "use a GPU with 8.0 or 9.0, or --device emu");
}

}  // namespace cupel::gpu
