// Finds the symbols that a candidate's shared object needs and this process lacks. Runs before the
// object is loaded, because dlopen names only the first one.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "os/mapped_file.h"
#include "ptx/parser.h"
#include "record/candidate.h"
#include "record/refuse.h"

namespace cupel::record {
namespace {

/// A table of an ELF file. Empty if it exceeds the file or is misaligned.
template <typename T>
std::span<const T> Table(std::span<const std::byte> file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset || offset % alignof(T) != 0) return {};
  return {reinterpret_cast<const T*>(file.data() + offset), bytes / sizeof(T)};
}

/// Symbols that the object needs and this process does not define.
std::vector<std::string> MissingSymbols(std::span<const std::byte> file) {
  std::vector<std::string> missing;
  const auto header = Table<Elf64_Ehdr>(file, 0, std::min(file.size(), sizeof(Elf64_Ehdr)));
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return missing;
  const auto sections =
      Table<Elf64_Shdr>(file, header[0].e_shoff, uint64_t{header[0].e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    const auto strings = Table<char>(file, names.sh_offset, names.sh_size);
    if (strings.empty() || strings.back() != '\0') continue;
    for (const Elf64_Sym& symbol : Table<Elf64_Sym>(file, section.sh_offset, section.sh_size)) {
      const bool needed = symbol.st_shndx == SHN_UNDEF &&
                          ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
                          symbol.st_name < strings.size();
      if (!needed || strings[symbol.st_name] == '\0') continue;
      const char* name = &strings[symbol.st_name];
      if (dlsym(RTLD_DEFAULT, name) == nullptr) missing.push_back(ptx::Demangle(name));
    }
  }
  return missing;
}

}  // namespace

void CheckSymbols(const std::string& path) {
  std::vector<std::string> missing;
  if (const auto file = os::MappedFile::Open(path)) missing = MissingSymbols(file->bytes());
  if (missing.empty()) return;
  const size_t count = missing.size();
  if (count > 8) missing.resize(8);
  RefuseUnsupported("unsupported_api",
                    fmt::format("the candidate uses {} that cupel's stand-in CUDA runtime lacks: "
                                "{}{}",
                                count == 1 ? "a function" : "functions", fmt::join(missing, ", "),
                                count > 8 ? ", …" : ""),
                    missing.front());
}

}  // namespace cupel::record
