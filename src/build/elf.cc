// SPDX-License-Identifier: Apache-2.0
#include "build/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace cupel::build {
namespace {

using Bytes = std::span<const std::byte>;

template <typename T>
std::optional<T> At(Bytes file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string_view NameAt(Bytes strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
  return {begin, strnlen(begin, strings.size() - offset)};
}

Bytes Content(Bytes file, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > file.size()) return {};
  return file.subspan(section.sh_offset,
                      std::min<uint64_t>(section.sh_size, file.size() - section.sh_offset));
}

std::vector<Elf64_Shdr> Sections(Bytes file, const Elf64_Ehdr& header) {
  std::vector<Elf64_Shdr> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(file, header.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section) break;
    sections.push_back(*section);
  }
  return sections;
}

void ReadSegments(Bytes file, const Elf64_Ehdr& header, SharedObject& object) {
  object.stack = SharedObject::Stack::kUnmarked;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(file, header.e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
    if (!segment) break;
    const bool executable = (segment->p_flags & PF_X) != 0;
    if (segment->p_type == PT_GNU_STACK) {
      object.stack = executable ? SharedObject::Stack::kExecutable : SharedObject::Stack::kPlain;
    }
    if (segment->p_type == PT_LOAD && executable && (segment->p_flags & PF_W) != 0) {
      object.writable_code = true;
    }
  }
}

void ReadDynamic(Bytes dynamic, SharedObject& object) {
  for (uint64_t i = 0; i < dynamic.size() / sizeof(Elf64_Dyn); ++i) {
    const auto entry = *At<Elf64_Dyn>(dynamic, i * sizeof(Elf64_Dyn));
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_TEXTREL) object.text_relocations = true;
    if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0) {
      object.text_relocations = true;
    }
  }
}

void CountResolvers(Bytes relocations, SharedObject& object) {
  for (uint64_t i = 0; i < relocations.size() / sizeof(Elf64_Rela); ++i) {
    const auto entry = *At<Elf64_Rela>(relocations, i * sizeof(Elf64_Rela));
    object.resolvers += ELF64_R_TYPE(entry.r_info) == R_X86_64_IRELATIVE;
  }
}

}  // namespace

Result<SharedObject> ReadSharedObject(Bytes file) {
  const auto header = At<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return Fail(ErrorCode::kInternal, "the compiler's output is not a shared object");
  }
  const std::vector<Elf64_Shdr> sections = Sections(file, *header);
  SharedObject object;
  ReadSegments(file, *header, object);
  const Bytes names =
      header->e_shstrndx < sections.size() ? Content(file, sections[header->e_shstrndx]) : Bytes();
  Bytes versions;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_GNU_versym) versions = Content(file, section);
    if (section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_PREINIT_ARRAY) {
      object.constructors += section.sh_size / sizeof(void*);
    }
    if (section.sh_type == SHT_DYNAMIC) ReadDynamic(Content(file, section), object);
    if (section.sh_type == SHT_RELA) CountResolvers(Content(file, section), object);
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0) {
      const std::string name(NameAt(names, section.sh_name));
      object.code.push_back({name, Content(file, section)});
    }
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Bytes symbols = Content(file, section);
    const Bytes strings = Content(file, sections[section.sh_link]);
    for (uint64_t i = 1; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = *At<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
      const std::string name(NameAt(strings, symbol.st_name));
      if (symbol.st_shndx != SHN_UNDEF) {
        object.resolvers += ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC;
        object.defined.push_back(name);
      } else if (ELF64_ST_BIND(symbol.st_info) == STB_WEAK) {
        object.weak.push_back(name);
      } else {
        object.undefined.push_back(name);
        const auto version = At<Elf64_Half>(versions, i * sizeof(Elf64_Half));
        if (!version || (*version & 0x7fff) <= 1) object.unversioned.push_back(name);
      }
    }
  }
  return object;
}

}  // namespace cupel::build
