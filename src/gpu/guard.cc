// Tested by timer_test.cc (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/guard.h"

#include <utility>

#include "gpu/outputs.h"
#include "gpu/own_kernels.h"

namespace cupel::gpu {
namespace {

constexpr uint64_t kMostAreas = uint64_t{1} << 18;  // whose sums fit in one page

}  // namespace

Result<Guard> Guard::Make(const Device& device, const Clock& clock) {
  TRY_ASSIGN(Block sums, Block::Allocate(device, kMostAreas * sizeof(uint64_t)));
  return Guard(device, clock, std::move(sums));
}

void Guard::Watch(CuPointer address, uint64_t bytes, std::string name) {
  const CuPointer begin = (address + 15) / 16 * 16;
  const CuPointer end = (address + bytes) / 16 * 16;
  if (end <= begin || areas_.size() == kMostAreas) return;
  areas_.push_back({begin, end - begin, std::move(name)});
}

Status Guard::Remember() {
  TRY_ASSIGN(remembered_, Sums());
  return {};
}

Result<std::vector<std::string>> Guard::Changed() {
  TRY_ASSIGN(const std::vector<uint64_t> now, Sums());
  std::vector<std::string> changed;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != remembered_[i]) changed.push_back(areas_[i].name);
  }
  return changed;
}

Result<std::vector<uint64_t>> Guard::Sums() {
  std::vector<uint64_t> sums(areas_.size());
  const Driver& driver = device_->driver();
  TRY(driver.Check(driver.fill_32(sums_.address(), 0, 2 * areas_.size(), device_->stream()),
                   "filling memory"));
  const CuFunction read = clock_->Own(kReadKernel);
  for (size_t i = 0; i < areas_.size(); ++i) {
    CuPointer data = areas_[i].address, sum = sums_.address() + i * sizeof(uint64_t);
    uint64_t bytes = areas_[i].bytes;
    void* parameters[] = {&data, &bytes, &sum};
    const uint64_t blocks = (bytes / 16 + kOwnBlock - 1) / kOwnBlock;
    TRY(clock_->Launch(read, static_cast<uint32_t>(std::min<uint64_t>(blocks, clock_->FullGrid())),
                       parameters));
  }
  TRY(ReadBack(*device_, sums_.address(), std::as_writable_bytes(std::span(sums))));
  return sums;
}

}  // namespace cupel::gpu
