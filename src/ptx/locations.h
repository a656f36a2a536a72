// Source positions of a module: .file, .loc and the names of inlined functions in .debug_str.
//
// `.loc F L C, function_name LABEL, inlined_at F2 L2 C2` names the place of the call. That place is
// itself a position of an earlier .loc of the same function, which may be inlined too. The parser
// takes the latest earlier .loc with that file, line and column.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/ir.h"
#include "ptx/lexer.h"

namespace cupel::ptx {

struct Position {
  int file = 0;
  int line = 0;
  int column = 0;

  auto operator<=>(const Position&) const = default;
};

class LocationTable {
 public:
  /// Each parses what follows the directive's word. Errors are recorded in the stream.
  bool ParseFile(TokenStream& in);
  bool ParseLoc(TokenStream& in);
  /// Parses a section's body. Reads .debug_str and skips the others.
  bool ParseSection(TokenStream& in);

  void EnterFunction();
  const Location& current() const { return current_; }

  /// Resolves names, and renumbers files and sites of `module` and its instructions in a canonical
  /// order.
  void Finish(Module* module);

 private:
  struct RawSite {
    std::string_view label;
    uint64_t label_offset = 0;
    Location call;  // file is the number in the text
    int depth = 0;
    bool operator==(const RawSite&) const = default;
  };
  struct RawSiteHash {
    size_t operator()(const RawSite& site) const;
  };

  bool ParsePosition(TokenStream& in, Position* position);
  bool ParseInlining(TokenStream& in, Location* location);
  bool ParseStrings(TokenStream& in);
  std::string NameOf(const RawSite& site);

  std::map<int, std::string> files_;  // by number in the text
  std::vector<RawSite> sites_;
  std::unordered_map<RawSite, int, RawSiteHash> site_indices_;
  std::map<Position, Location> seen_;  // in this function
  Location current_;
  size_t name_bytes_left_ = 64u << 20;  // bounds the copies of one long name at many sites
  std::string strings_;                 // the bytes of .debug_str
  std::unordered_map<std::string_view, size_t> string_labels_;
};

}  // namespace cupel::ptx
