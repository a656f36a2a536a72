// The module level of PTX.
// SPDX-License-Identifier: Apache-2.0
#include "ptx/parser.h"

#include <fmt/format.h>

#include "base/parse_number.h"
#include "ptx/declarations.h"
#include "ptx/function_parser.h"
#include "ptx/lexer.h"
#include "ptx/limits.h"
#include "ptx/locations.h"
#include "ptx/names.h"
#include "ptx/symbols.h"

namespace cupel::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text) : in_(text) {}

  bool Parse() {
    while (!in_.AtEnd()) {
      if (in_.At('@')) {
        return in_.Unsupported("@@DWARF lines of old compilers");
      }
      if (in_.current().kind != TokenKind::kDot) return in_.Unexpected("a directive");
      if (!ParseDirective()) return false;
    }
    if (module_.version_major == 0) return in_.Malformed("no .version directive");
    if (module_.target.empty()) return in_.Malformed("no .target directive");
    locations_.Finish(&module_);
    return true;
  }

  Module& module() { return module_; }
  const TokenStream& stream() const { return in_; }

 private:
  bool ParseDirective() {
    const std::string_view word = in_.current().text;
    if (word == "section") {
      in_.Advance();
      return locations_.ParseSection(in_);
    }
    Linkage linkage = LinkageNamed(word);
    in_.Advance();
    if (linkage != Linkage::kNone) return ParseLinked(linkage);
    if (word == "version") return ParseVersion();
    if (word == "target") return ParseTarget();
    if (word == "address_size") return ParseAddressSize();
    if (word == "file") return locations_.ParseFile(in_);
    if (word == "loc") return locations_.ParseLoc(in_);
    if (word == "pragma") return ParsePragma();
    if (word == "alias") return ParseAlias();
    return ParseEntity(word, Linkage::kNone);
  }

  bool ParseLinked(Linkage linkage) {
    if (in_.current().kind != TokenKind::kDot) return in_.Unexpected("a directive");
    const std::string_view word = in_.current().text;
    in_.Advance();
    return ParseEntity(word, linkage);
  }

  bool ParseEntity(std::string_view word, Linkage linkage) {
    if (word == "entry" || word == "func") return ParseFunction(word == "entry", linkage);
    if (word == "global" || word == "const" || word == "shared") {
      return ParseVariable(SpaceNamed(word), linkage);
    }
    return in_.Unsupported(fmt::format("directive .{}", Quote(word)));
  }

  bool ParseVersion() {
    // The lexer reads "9.0" as one token: a floating-point number.
    const std::string_view text = in_.current().text;
    const size_t dot = text.find('.');
    if (dot == std::string_view::npos) return in_.Unexpected("a version");
    const auto major = ParseNumber<uint16_t>(text.substr(0, dot));
    const auto minor = ParseNumber<uint16_t>(text.substr(dot + 1));
    if (!major || !minor) return in_.Unexpected("a version");
    module_.version_major = *major;
    module_.version_minor = *minor;
    in_.Advance();
    return true;
  }

  bool ParseTarget() {
    std::string_view target;
    if (!in_.ExpectIdentifier(&target, "a target")) return false;
    module_.target = std::string(target);
    while (in_.Accept(',')) {  // "debug", texture modes
      if (!in_.ExpectIdentifier(&target, "a target's option")) return false;
    }
    return true;
  }

  bool ParseAddressSize() {
    uint64_t bits = 0;
    if (!in_.ExpectInteger(64, &bits, "an address size")) return false;
    return bits == 64 || in_.Unsupported("only 64-bit addresses are supported");
  }

  bool ParsePragma() {
    std::string_view text;
    do {
      if (!in_.ExpectString(&text)) return false;
    } while (in_.Accept(','));
    return in_.Expect(';');
  }

  bool ParseAlias() {
    std::string_view name;
    std::string_view target;
    if (!Spend(in_, &budget_.names, "names") || !in_.ExpectIdentifier(&name, "a function") ||
        !in_.Expect(',') || !in_.ExpectIdentifier(&target, "a function")) {
      return false;
    }
    for (const std::string_view function : {name, target}) {
      if (symbols_.Find(function).kind != SymbolKind::kFunction) {
        return in_.Malformed(fmt::format("'{}' is not a declared function", Quote(function)));
      }
    }
    module_.aliases.push_back({std::string(name), std::string(target)});
    return in_.Expect(';');
  }

  bool ParseVariable(Space space, Linkage linkage) {
    Variable prefix;
    prefix.space = space;
    prefix.linkage = linkage;
    std::vector<std::string_view> names;
    if (!ParseVariables(in_, prefix, symbols_, &budget_, &module_.variables, &names)) return false;
    for (const std::string_view name : names) {
      if (!symbols_.Declare(name, {SymbolKind::kVariable, 0, -1, name})) {
        return in_.Malformed(fmt::format("'{}' is declared twice", Quote(name)));
      }
    }
    return true;
  }

  bool ParseFunction(bool is_entry, Linkage linkage) {
    if (module_.functions.size() >= kMaxFunctions) return in_.Malformed("too many functions");
    Function function;
    function.is_entry = is_entry;
    function.linkage = linkage;
    function.variables_before = static_cast<int>(module_.variables.size());
    if (!FunctionParser(in_, symbols_, locations_, &budget_, &function).Parse()) return false;
    module_.functions.push_back(std::move(function));
    return true;
  }

  TokenStream in_;
  SymbolTable symbols_;
  LocationTable locations_;
  Budget budget_{kMaxModuleRegisters,   kMaxInstrs, kMaxOperands,
                 kMaxModifiersInModule, kMaxNames,  kMaxInitializerBytes};
  Module module_;
};

}  // namespace

Result<Module> Parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the PTX text has {} bytes, more than {}", text.size(), kMaxTextBytes));
  }
  // NVRTC counts a zero byte as part of the text. Drivers stop reading there.
  ModuleParser parser(text.substr(0, text.find('\0')));
  if (!parser.Parse()) return tl::unexpected<Error>(parser.stream().error());
  return std::move(parser.module());
}

}  // namespace cupel::ptx
