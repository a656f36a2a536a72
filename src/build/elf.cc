// SPDX-License-Identifier: Apache-2.0
#include "build/elf.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
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

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// What the recorder stands in for.
bool IsProvided(std::string_view name) {
  for (const std::string_view prefix :
       {"cuda", "__cuda", "cublas", "cupel_rt_", "cu", "curand", "nv"}) {
    if (StartsWith(name, prefix)) return true;
  }
  return false;
}

constexpr std::array<std::string_view, 24> kNoteworthy = {
    "fork",
    "vfork",
    "execve",
    "execvp",
    "system",
    "popen",
    "posix_spawn",
    "pthread_create",
    "socket",
    "connect",
    "open",
    "open64",
    "fopen",
    "fopen64",
    "dlopen",
    "dlsym",
    "syscall",
    "ptrace",
    "mprotect",
    "getenv",
    "kill",
    "sigaction",
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_"
    "deleteIS1_EEPFvvE",
    "_ZNSt13random_device9_M_getvalEv"};

std::string Readable(std::string_view name) {
  if (StartsWith(name, "_ZNSt6thread")) return "std::thread";
  if (StartsWith(name, "_ZNSt13random_device")) return "std::random_device";
  return std::string(name.substr(0, 120));
}

}  // namespace

Result<SharedObject> ReadSharedObject(Bytes file) {
  const auto header = At<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return Fail(ErrorCode::kInternal, "the compiler's output is no shared object");
  }
  const std::vector<Elf64_Shdr> sections = Sections(file, *header);
  SharedObject object;
  Bytes versions;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_GNU_versym) versions = Content(file, section);
    if (section.sh_type == SHT_INIT_ARRAY) object.constructors = section.sh_size / sizeof(void*);
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Bytes symbols = Content(file, section);
    const Bytes strings = Content(file, sections[section.sh_link]);
    for (uint64_t i = 1; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = *At<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
      const std::string name(NameAt(strings, symbol.st_name));
      if (symbol.st_shndx != SHN_UNDEF) {
        object.defined.push_back(name);
      } else if (ELF64_ST_BIND(symbol.st_info) != STB_WEAK) {
        object.undefined.push_back(name);
        const auto version = At<Elf64_Half>(versions, i * sizeof(Elf64_Half));
        if (!version || (*version & 0x7fff) <= 1) object.unversioned.push_back(name);
      }
    }
  }
  return object;
}

std::vector<std::string> NotesFromObject(const SharedObject& object) {
  std::vector<std::string> notes;
  for (const std::string& name : object.undefined) {
    if (std::find(kNoteworthy.begin(), kNoteworthy.end(), name) != kNoteworthy.end()) {
      notes.push_back(fmt::format("host code uses {}", Readable(name)));
    }
  }
  std::string missing;
  size_t count = 0;
  for (const std::string& name : object.unversioned) {
    if (IsProvided(name)) continue;
    if (++count <= 5) missing += (missing.empty() ? "" : ", ") + Readable(name);
  }
  if (count > 0) {
    notes.push_back(fmt::format("needs symbols that nothing provides: {}{}", missing,
                                count > 5 ? fmt::format(" and {} more", count - 5) : ""));
  }
  // The compiler's own, the registration of kernels, and one for the file's static objects.
  constexpr size_t kExpectedConstructors = 3;
  if (object.constructors > kExpectedConstructors) {
    notes.push_back(fmt::format("runs {} functions when it is loaded", object.constructors));
  }
  return notes;
}

}  // namespace cupel::build
