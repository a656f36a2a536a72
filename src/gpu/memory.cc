// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/random.h"

namespace cupel::gpu {
namespace {

constexpr uint64_t kRedBytes = 4096;       // before and after each buffer
constexpr uint64_t kAlignment = 512;       // of cudaMalloc and PyTorch's allocator
constexpr uint32_t kRedWord = 0x7fedcafe;  // a NaN that arithmetic does not produce
// For spread memory: bits 9 to 15 are random for each address, bits up to 25 for all together.
constexpr uint64_t kMostGap = uint64_t{64} << 10;    // after a buffer
constexpr uint64_t kMostStart = uint64_t{64} << 20;  // before the first one

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t DrawGap(Random& random, uint64_t most) {
  return random.Below(most / kAlignment) * kAlignment;
}

}  // namespace

uint32_t PoisonWord(int poison) {
  constexpr uint32_t kWords[] = {0x7ff7c0de, 0x7e7e7e7e, 0xfe7e7e7e};
  return kWords[std::clamp(poison, 0, 2)];
}

uint64_t PlanMemory::BytesFor(const plan::Plan& plan) const {
  uint64_t total = kRedBytes;
  if (spread_) total += kMostStart + plan.buffers.size() * kMostGap;
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.kind != plan::BufferKind::kSymbol) total += Aligned(buffer.bytes) + kRedBytes;
  }
  return total;
}

Status PlanMemory::PlaceBuffers(const plan::Plan& plan, std::span<const Module> modules,
                                CuPointer base) {
  places_.assign(plan.buffers.size(), {});
  kinds_.clear();
  for (const plan::Buffer& buffer : plan.buffers) kinds_.push_back(buffer.kind);
  std::vector<size_t> order(plan.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Random random(spread_.value_or(0));
  CuPointer next = base + kRedBytes;
  if (spread_) {
    random.Shuffle(order);
    next += DrawGap(random, kMostStart);
  }
  for (const size_t i : order) {
    const plan::Buffer& buffer = plan.buffers[i];
    Place& place = places_[i];
    place = {next, buffer.bytes, plan::NameOf(buffer, i)};
    if (buffer.kind != plan::BufferKind::kSymbol) {
      next += Aligned(buffer.bytes) + kRedBytes;
      if (spread_) next += DrawGap(random, kMostGap);
    } else {
      const auto image = static_cast<size_t>(buffer.image);
      size_t bytes = 0;
      if (image >= modules.size() ||
          device_.driver().module_global(&place.address, &bytes, modules[image].get(),
                                         buffer.symbol.c_str()) != 0 ||
          bytes != buffer.bytes) {
        return Fail(ErrorCode::kInternal,
                    fmt::format("the plan's variable {} is not in the image", buffer.symbol));
      }
    }
  }
  return {};
}

Status PlanMemory::Bind(const plan::Plan& plan,
                        std::span<const std::span<const std::byte>> arguments,
                        std::span<const Module> modules, int poison, CuPointer base) {
  const Driver& driver = device_.driver();
  const CuStream stream = device_.stream();
  TRY(PlaceBuffers(plan, modules, base));
  // First fill everything with the red zone's word, then the buffers with their contents.
  TRY(driver.Check(driver.fill_32(base, kRedWord, BytesFor(plan) / 4, stream), "filling memory"));
  TRY(Poison(poison));
  return CopyArguments(plan, arguments, [](const plan::Buffer&) { return true; });
}

Status PlanMemory::RestoreArguments(const plan::Plan& plan,
                                    std::span<const std::span<const std::byte>> arguments) {
  return CopyArguments(plan, arguments,
                       [](const plan::Buffer& buffer) { return !plan::IsReadOnly(buffer); });
}

Status PlanMemory::CopyArguments(const plan::Plan& plan,
                                 std::span<const std::span<const std::byte>> arguments,
                                 bool (*is_copied)(const plan::Buffer&)) {
  const Driver& driver = device_.driver();
  const CuStream stream = device_.stream();
  for (size_t i = 0; i < places_.size(); ++i) {
    const plan::Buffer& buffer = plan.buffers[i];
    if (kinds_[i] != plan::BufferKind::kArgument || !is_copied(buffer)) continue;
    const auto index = static_cast<size_t>(buffer.argument);
    if (index >= arguments.size() || arguments[index].size() != buffer.bytes) {
      return Fail(
          ErrorCode::kInternal,
          fmt::format("the plan's argument {} does not match the given argument", buffer.argument));
    }
    if (buffer.bytes == 0) continue;
    TRY(driver.Check(
        driver.copy_in(places_[i].address, arguments[index].data(), buffer.bytes, stream),
        "copying an argument to the GPU"));
  }
  return {};
}

Status PlanMemory::Poison(int poison) const {
  const Driver& driver = device_.driver();
  for (size_t i = 0; i < places_.size(); ++i) {
    const bool kept = kinds_[i] == plan::BufferKind::kArgument ||
                      kinds_[i] == plan::BufferKind::kSymbol || places_[i].bytes == 0;
    if (kept) continue;
    TRY(driver.Check(driver.fill_32(places_[i].address, PoisonWord(poison),
                                    (places_[i].bytes + 3) / 4, device_.stream()),
                     "poisoning a buffer"));
  }
  return {};
}

std::optional<CuPointer> PlanMemory::AddressOf(const plan::Address& address) const {
  if (address.buffer == -1) return static_cast<CuPointer>(address.offset);
  if (address.buffer < 0 || static_cast<size_t>(address.buffer) >= places_.size()) return {};
  return places_[static_cast<size_t>(address.buffer)].address +
         static_cast<CuPointer>(address.offset);
}

bool PlanMemory::Relocate(std::span<const plan::Relocation> relocations,
                          std::span<std::byte> bytes) const {
  for (const plan::Relocation& relocation : relocations) {
    const auto target = AddressOf(relocation.target);
    if (!target || relocation.at > bytes.size() || bytes.size() - relocation.at < sizeof *target) {
      return false;
    }
    std::memcpy(bytes.data() + relocation.at, &*target, sizeof *target);
  }
  return true;
}

bool PlanMemory::Contains(const plan::Address& address, uint64_t bytes) const {
  if (address.buffer < 0 || static_cast<size_t>(address.buffer) >= places_.size()) return false;
  const uint64_t size = places_[static_cast<size_t>(address.buffer)].bytes;
  return address.offset >= 0 && static_cast<uint64_t>(address.offset) <= size &&
         bytes <= size - static_cast<uint64_t>(address.offset);
}

Result<std::optional<std::string>> PlanMemory::FindStrayWrite() const {
  const Driver& driver = device_.driver();
  std::vector<uint32_t> words;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (kinds_[i] == plan::BufferKind::kSymbol) continue;
    const Place& place = places_[i];
    // The red zone after the buffer includes the padding for alignment.
    const uint64_t behind = (place.bytes + 3) / 4 * 4;
    const uint64_t red = Aligned(place.bytes) - behind + kRedBytes;
    for (const bool before : {true, false}) {
      words.resize((before ? kRedBytes : red) / 4);
      const CuPointer from = before ? place.address - kRedBytes : place.address + behind;
      TRY(driver.Check(driver.copy_out(words.data(), from, words.size() * 4, device_.stream()),
                       "reading a red zone"));
      TRY(driver.Check(driver.stream_synchronize(device_.stream()), "reading a red zone"));
      // Search from the buffer outwards: a stray write most likely starts next to it.
      for (size_t k = 0; k < words.size(); ++k) {
        const size_t at = before ? words.size() - 1 - k : k;
        if (words[at] == kRedWord) continue;
        return std::optional<std::string>(
            before ? fmt::format("{} bytes before {}", kRedBytes - 4 * at, place.name)
                   : fmt::format("{} + {} bytes, {} past its end", place.name, behind + 4 * at,
                                 behind + 4 * at - place.bytes));
      }
    }
  }
  return std::optional<std::string>();
}

}  // namespace cupel::gpu
