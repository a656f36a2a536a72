// SPDX-License-Identifier: Apache-2.0
#include "emu/core/handler_table.h"

#include <algorithm>

namespace cupel::emu {

void HandlerTable::Add(std::string_view name, Entry entry) {
  entry.form = FormNamed(name);
  entries_.insert_or_assign(entry.form, entry);
}

const Entry* HandlerTable::Find(const Form& form) const {
  const auto found = entries_.find(form);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::string> HandlerTable::Names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [form, entry] : entries_) names.push_back(Name(form));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cupel::emu
