// Tested by tests/e2e/test_gpu_programs.py (on a GPU).
// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "plan/operator_json.h"

namespace cupel::gpu {
namespace {

constexpr uint64_t kTorchAlignment = 256;  // of the tensors that PyTorch makes
constexpr uint64_t kSmall = 2u << 20;      // a piece of this size serves all smaller tensors

bool IsArgument(const plan::Operator& work, int buffer) {
  bool found = false;
  for (const plan::OperatorValue& argument : work.arguments) {
    plan::ForEachViewOf(argument, false, [&](const plan::View& view, bool /*is_written*/) {
      found |= view.address.buffer == buffer;
    });
  }
  return found;
}

}  // namespace

Result<std::string> Operators::Enqueue(const plan::Operator& work, const PlanMemory& memory) {
  plan::Operator moved = work;
  std::map<int, int> numbers;  // of the ranges, by buffer
  Json ranges = Json::array();
  plan::ForEachView(moved, [&](plan::View& view, bool /*is_written*/) {
    const int buffer = view.address.buffer;
    const auto [at, is_new] = numbers.emplace(buffer, static_cast<int>(ranges.size()));
    if (is_new) {
      const Place& place = memory.places()[static_cast<size_t>(buffer)];
      ranges.push_back({place.address, place.bytes});
    }
    view.address.buffer = at->second;
  });
  {
    const std::lock_guard lock(mutex_);
    expected_.clear();
    for (const plan::View& result : work.results) {
      if (result.address.buffer == plan::kNoneOutput || IsArgument(work, result.address.buffer)) {
        continue;
      }
      const CuPointer place = *memory.AddressOf(result.address);
      const uint64_t bytes = plan::ElementsOf(result) * static_cast<uint64_t>(SizeOf(result.dtype));
      if (place % kTorchAlignment == 0 && memory.Contains(result.address, bytes)) {
        expected_.emplace(bytes, place);
      }
    }
  }
  Json request = plan::WriteOperator(moved);
  request["ranges"] = std::move(ranges);
  request["stream"] = reinterpret_cast<uintptr_t>(device_->stream());
  std::string problem = call_(DumpJson(request));
  const std::lock_guard lock(mutex_);
  expected_.clear();
  return problem;
}

CuPointer Operators::Allocate(uint64_t bytes) {
  if (device_ == nullptr || bytes == 0) return 0;
  const std::lock_guard lock(mutex_);
  if (const auto place = expected_.find(bytes); place != expected_.end()) {
    const CuPointer address = place->second;
    expected_.erase(place);
    return address;
  }
  Piece* best = nullptr;
  for (Piece& piece : pieces_) {
    const uint64_t size = piece.block.capacity();
    if (piece.is_used || size < bytes || size > std::max(2 * bytes, kSmall)) continue;
    if (best == nullptr || size < best->block.capacity()) best = &piece;
  }
  if (best == nullptr) {
    auto block = Block::Allocate(*device_, bytes);
    if (!block) return 0;
    best = &pieces_.emplace_back(Piece{std::move(*block)});
  }
  best->is_used = true;
  return best->block.address();
}

void Operators::Free(CuPointer address) {
  const std::lock_guard lock(mutex_);
  for (Piece& piece : pieces_) {
    if (piece.block.address() == address) piece.is_used = false;
  }
}

Status Operators::Clear() {
  const std::lock_guard lock(mutex_);
  for (const Piece& piece : pieces_) TRY(piece.block.Fill(0));
  return {};
}

void Operators::Trim() {
  const std::lock_guard lock(mutex_);
  pieces_.remove_if([](const Piece& piece) { return !piece.is_used; });
}

}  // namespace cupel::gpu
