// The shadows of a run and of its resident blocks: their allocation and initialisation.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "emu/core/kernel.h"
#include "emu/core/op.h"
#include "emu/shadow/decisions.h"
#include "emu/shadow/shadow.h"

namespace cupel::emu {
namespace {

/// If a block's shadows are larger, its local memory is not followed.
constexpr size_t kMostLocalBytes = size_t{256} << 20;

}  // namespace

Result<std::unique_ptr<ShadowRun>> ShadowRun::Create(
    uint64_t base, const std::optional<engine::FieldOptions>& field) {
  auto run = std::make_unique<ShadowRun>();
  if (field) run->field_.emplace(*field);
  TRY_ASSIGN(run->memory_, ShadowMemory::Create(base, run->field_ ? &*run->field_ : nullptr));
  return run;
}
ShadowRun::~ShadowRun() = default;

const ShadowCode& ShadowRun::CodeOf(const Kernel& kernel) {
  for (const auto& [known, code] : codes_) {
    if (known == &kernel) return *code;
  }
  codes_.emplace_back(&kernel, MakeShadowCode(*kernel.code));
  codes_.back().second->kernel = kernel.demangled;
  return *codes_.back().second;
}

std::vector<std::string> ShadowRun::unknown() const {
  std::vector<std::string> all;
  for (const auto& [kernel, code] : codes_) {
    for (const std::string& name : code->unknown) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
  }
  return all;
}

std::vector<engine::Decision> ShadowRun::decisions() const {
  std::vector<engine::Decision> all;
  for (const auto& [kernel, code] : codes_) {
    std::ranges::move(DecisionsOf(*code), std::back_inserter(all));
  }
  return all;
}

BlockShadow::BlockShadow(const ShadowCode& code, ShadowMemory& memory, uint32_t warps,
                         uint32_t shared_bytes, uint32_t local_bytes)
    : warps_(warps) {
  const auto frame = static_cast<size_t>(code.variant->frame_bytes);
  const size_t planes = (frame / 64 + 4) * sizeof(Plane);
  const size_t shared = (shared_bytes / 2 + 64) * sizeof(Cell);
  size_t local = size_t{local_bytes} / 2 * kLanes * sizeof(Cell);
  if (local * warps > kMostLocalBytes) local = 0;
  bytes_ = (planes + local) * warps + shared;
  // Unwritten pages cost nothing. Their initial content is zero.
  void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<std::byte*>(pages);
  const size_t headers = frame / 128 + 2;
  const size_t taints = frame / 4 + 1;
  headers_.resize(headers * warps);
  taints_.resize(taints * warps);
  for (uint32_t w = 0; w < warps; ++w) {
    WarpShadow& warp = warps_[w];
    std::byte* at = pages_ + (planes + local) * w;
    warp.sides = code.sides.data();
    warp.code = &code;
    warp.planes = reinterpret_cast<Plane*>(at);
    warp.local = local == 0 ? nullptr : reinterpret_cast<Cell*>(at + planes);
    warp.shared = reinterpret_cast<Cell*>(pages_ + (planes + local) * warps);
    warp.headers = headers_.data() + headers * w;
    warp.taints = taints_.data() + taints * w;
    warp.result = &result_;
    warp.memory = &memory;
    warp.field = memory.field();
  }
}

BlockShadow::~BlockShadow() { munmap(pages_, bytes_); }

void BlockShadow::Start() {
  std::fill(headers_.begin(), headers_.end(), SlotHeader{});
  std::fill(taints_.begin(), taints_.end(), 0u);
  for (WarpShadow& warp : warps_) {
    warp.calls.reset();
    warp.reset = warp.branch = warp.history = 0;
  }
}

}  // namespace cupel::emu
