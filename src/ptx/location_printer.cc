// SPDX-License-Identifier: Apache-2.0
#include "ptx/location_printer.h"

#include <fmt/format.h>

#include <iterator>

namespace cupel::ptx {

LocationPrinter::LocationPrinter(const Module& module) : module_(module) {
  for (const InlinedSite& site : module.inlined_sites) {
    if (name_indices_.try_emplace(site.function, names_.size()).second) {
      names_.push_back(site.function);
    }
  }
}

void LocationPrinter::PrintFiles(std::string* out) const {
  for (size_t i = 0; i < module_.files.size(); ++i) {
    fmt::format_to(std::back_inserter(*out), "\t.file\t{} \"{}\"\n", i + 1, module_.files[i]);
  }
}

void LocationPrinter::EnterFunction() {
  seen_.clear();
  current_ = {};
}

void LocationPrinter::PrintOne(const Location& location, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "\t.loc\t{} {} {}", location.file + 1, location.line,
                 location.column);
  if (location.inlined_at >= 0) {
    const InlinedSite& site = module_.inlined_sites[location.inlined_at];
    fmt::format_to(
        std::back_inserter(*out), ", function_name $L__info_string{}, inlined_at {} {} {}",
        name_indices_.at(site.function), site.call.file + 1, site.call.line, site.call.column);
  }
  *out += '\n';
  seen_[{{location.file, location.line}, location.column}] = location.inlined_at;
}

void LocationPrinter::PrintLoc(const Location& location, std::string* out) {
  if (location.file < 0 || location == current_) return;
  std::vector<const Location*> chain{&location};
  while (chain.back()->inlined_at >= 0) {
    const Location& call = module_.inlined_sites[chain.back()->inlined_at].call;
    const auto seen = seen_.find({{call.file, call.line}, call.column});
    if (seen != seen_.end() && seen->second == call.inlined_at) break;
    chain.push_back(&call);
  }
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) PrintOne(**it, out);
  current_ = location;
}

void LocationPrinter::PrintNames(std::string* out) const {
  if (names_.empty()) return;
  *out += "\t.section\t.debug_str\n\t{\n";
  for (size_t i = 0; i < names_.size(); ++i) {
    fmt::format_to(std::back_inserter(*out), "$L__info_string{}:\n", i);
    for (const char c : names_[i]) {
      fmt::format_to(std::back_inserter(*out), ".b8 {}\n", static_cast<unsigned char>(c));
    }
    *out += ".b8 0\n";
  }
  *out += "\t}\n";
}

}  // namespace cupel::ptx
