// SPDX-License-Identifier: Apache-2.0
#include "ptx/locations.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ptx/limits.h"

namespace cupel::ptx {
namespace {

size_t Mix(size_t hash, size_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u; }

}  // namespace

size_t LocationTable::RawSiteHash::operator()(const RawSite& site) const {
  size_t hash = std::hash<std::string_view>{}(site.label);
  hash = Mix(hash, site.label_offset);
  hash = Mix(hash, static_cast<size_t>(site.call.file));
  hash = Mix(hash, static_cast<size_t>(site.call.line));
  hash = Mix(hash, static_cast<size_t>(site.call.column));
  return Mix(hash, static_cast<size_t>(site.call.inlined_at)) >> 7;
}

bool LocationTable::ParseFile(TokenStream& in) {
  uint64_t number = 0;
  std::string_view path;
  if (!in.ExpectInteger(kMaxInt, &number, "a file number") || !in.ExpectString(&path)) return false;
  while (in.Accept(',')) {  // time stamp and size
    uint64_t ignored = 0;
    if (!in.ExpectInteger(~uint64_t{0}, &ignored, "a file's time stamp or size")) return false;
  }
  files_[static_cast<int>(number)] = std::string(path);
  return true;
}

bool LocationTable::ParsePosition(TokenStream& in, Position* position) {
  uint64_t file = 0;
  uint64_t line = 0;
  uint64_t column = 0;
  if (!in.ExpectInteger(kMaxInt, &file, "a file number") ||
      !in.ExpectInteger(kMaxInt, &line, "a line") ||
      !in.ExpectInteger(kMaxInt, &column, "a column")) {
    return false;
  }
  *position = {static_cast<int>(file), static_cast<int>(line), static_cast<int>(column)};
  return true;
}

bool LocationTable::ParseInlining(TokenStream& in, Location* location) {
  std::string_view word;
  RawSite site;
  if (!in.ExpectIdentifier(&word, "function_name")) return false;
  if (word != "function_name") return in.Malformed("function_name should follow the comma of .loc");
  if (in.current().kind == TokenKind::kInteger) {
    if (!in.ExpectInteger(kMaxInt, &site.label_offset, "an offset")) return false;
  } else {
    if (!in.ExpectIdentifier(&site.label, "a label")) return false;
    if (in.Accept('+') && !in.ExpectInteger(kMaxInt, &site.label_offset, "an offset")) return false;
  }
  if (!in.Expect(',') || !in.ExpectIdentifier(&word, "inlined_at")) return false;
  if (word != "inlined_at") return in.Malformed("inlined_at should follow function_name");
  Position call;
  if (!ParsePosition(in, &call)) return false;
  const auto seen = seen_.find(call);
  site.call = {call.file, call.line, seen == seen_.end() ? -1 : seen->second.inlined_at,
               call.column};
  if (site.call.inlined_at >= 0) site.depth = sites_[site.call.inlined_at].depth + 1;
  if (site.depth > kMaxInlineDepth) return in.Malformed("calls are inlined too deeply");
  const auto [it, is_new] = site_indices_.try_emplace(site, static_cast<int>(sites_.size()));
  if (is_new) sites_.push_back(site);
  files_.try_emplace(call.file);
  location->inlined_at = it->second;
  return true;
}

bool LocationTable::ParseLoc(TokenStream& in) {
  Position position;
  if (!ParsePosition(in, &position)) return false;
  Location location{position.file, position.line, -1, position.column};
  if (in.Accept(',') && !ParseInlining(in, &location)) return false;
  files_.try_emplace(position.file);
  seen_[position] = location;
  current_ = location;
  return true;
}

bool LocationTable::ParseSection(TokenStream& in) {
  const bool is_strings = in.AtDot("debug_str");
  in.Advance();
  while (!in.At('{') && !in.AtEnd()) in.Advance();  // flags of the section
  if (!in.Expect('{')) return false;
  if (is_strings) return ParseStrings(in);
  while (!in.At('}')) {
    if (in.AtEnd()) return in.Unexpected("}");
    in.Advance();
  }
  in.Advance();
  return true;
}

bool LocationTable::ParseStrings(TokenStream& in) {
  while (!in.Accept('}')) {
    if (in.AcceptDot("b8")) {
      do {
        uint64_t byte = 0;
        if (!in.ExpectInteger(255, &byte, "a byte")) return false;
        strings_ += static_cast<char>(byte);
      } while (in.Accept(','));
      continue;
    }
    std::string_view label;
    if (!in.ExpectIdentifier(&label, "a label, .b8 or }") || !in.Expect(':')) return false;
    string_labels_[label] = strings_.size();
  }
  return true;
}

void LocationTable::EnterFunction() {
  seen_.clear();
  current_ = {};
}

std::string LocationTable::NameOf(const RawSite& site) {
  const auto label = string_labels_.find(site.label);
  if (label == string_labels_.end() || site.label_offset >= strings_.size() ||
      label->second + site.label_offset >= strings_.size()) {
    return {};
  }
  const size_t start = label->second + site.label_offset;
  const size_t end = std::min(strings_.find('\0', start), strings_.size());
  if (end - start > name_bytes_left_) return {};
  name_bytes_left_ -= end - start;
  return strings_.substr(start, end - start);
}

void LocationTable::Finish(Module* module) {
  std::unordered_map<int, int> file_indices;
  for (const auto& [number, path] : files_) {
    file_indices[number] = static_cast<int>(module->files.size());
    module->files.push_back(path);
  }
  // Renumbers sites in the order in which instructions reach them, outermost first. A printed
  // module has the same order.
  std::vector<int> renumbered(sites_.size(), -1);
  std::map<std::pair<std::string, std::pair<Position, int>>, int> known;
  const auto renumber = [&](int site) {
    std::vector<int> chain;
    for (; site >= 0 && renumbered[site] < 0; site = sites_[site].call.inlined_at) {
      chain.push_back(site);
    }
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      Location call = sites_[*it].call;
      call.file = file_indices[call.file];
      if (call.inlined_at >= 0) call.inlined_at = renumbered[call.inlined_at];
      InlinedSite entry{NameOf(sites_[*it]), call};
      const auto [found, is_new] = known.try_emplace(
          {entry.function, {{call.file, call.line, call.column}, call.inlined_at}},
          static_cast<int>(module->inlined_sites.size()));
      if (is_new) module->inlined_sites.push_back(std::move(entry));
      renumbered[*it] = found->second;
    }
  };
  for (Function& function : module->functions) {
    for (Instr& instr : function.body) {
      if (instr.location.file < 0) continue;
      instr.location.file = file_indices[instr.location.file];
      if (instr.location.inlined_at < 0) continue;
      renumber(instr.location.inlined_at);
      instr.location.inlined_at = renumbered[instr.location.inlined_at];
    }
  }
}

}  // namespace cupel::ptx
