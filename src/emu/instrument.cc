// SPDX-License-Identifier: Apache-2.0
#include "emu/instrument.h"

#include <algorithm>

namespace cupel::emu {

std::unique_ptr<Variant> MakeVariant(const Code& code,
                                     const std::function<Thunks(size_t, const Op&)>& choose) {
  auto variant = std::make_unique<Variant>();
  variant->code = code;
  const size_t count = code.ops.size();
  variant->full.resize(count);
  variant->masked.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Op& op = variant->code.ops[i];
    variant->full[i] = op.full;
    variant->masked[i] = op.masked;
    const Thunks thunks = choose(i, code.ops[i]);
    if (thunks.full != nullptr) op.full = thunks.full;
    if (thunks.masked != nullptr) op.masked = thunks.masked;
  }
  return variant;
}

HandlerNames::HandlerNames(const HandlerTable& table) {
  for (const std::string& key : table.Keys()) {  // sorted, so the first of several keys is kept
    const Entry& entry = *table.Find(key);
    names_.try_emplace(entry.full, key, entry);
  }
  // Lane-wise handlers with the same kind of result share a masked form; rare ones have their own.
  const char* const samples[] = {"add.u32",   "add.u64",      "setp.eq.u32",
                                 "add.u16x2", "add.rn.f32x2", "setp.eq.ftz.f16"};
  for (size_t i = 0; i < std::size(samples); ++i) {
    if (const Entry* entry = table.Find(samples[i])) lanewise_[i] = entry->masked;
  }
}

std::string_view HandlerNames::KeyOf(const Op& op) const {
  const auto found = names_.find(op.full);
  if (found == names_.end()) return {};
  return found->second.first;
}

const Entry* HandlerNames::EntryOf(const Op& op) const {
  const auto found = names_.find(op.full);
  return found == names_.end() ? nullptr : &found->second.second;
}

bool HandlerNames::IsLanewise(const Op& op) const {
  return std::find(std::begin(lanewise_), std::end(lanewise_), op.masked) != std::end(lanewise_);
}

}  // namespace cupel::emu
