// SPDX-License-Identifier: Apache-2.0
#include "base/demangle.h"

#include <csetjmp>
#include <cstddef>

// The demangler of libstdc++.a, in the form that passes its text to a callback piece by piece.
// __cxa_demangle would collect the text without a limit, and back-references let a name of 300
// bytes expand to gigabytes.
extern "C" int __gcclibcxx_demangle_callback(  // NOLINT: libstdc++ chose the name
    const char* mangled, void (*callback)(const char*, size_t, void*), void* opaque);

namespace cupel {
namespace {

constexpr size_t kMaxMangledBytes = 16u << 10;  // the demangler's stack grows with the name
constexpr size_t kMaxDemangledBytes = 64u << 10;

struct Sink {
  std::jmp_buf too_long;
  std::string text;
};

void Collect(const char* piece, size_t size, void* opaque) {
  auto* sink = static_cast<Sink*>(opaque);
  // There are only C frames between here and setjmp, so nothing needs to be unwound.
  if (sink->text.size() + size > kMaxDemangledBytes) std::longjmp(sink->too_long, 1);  // NOLINT
  sink->text.append(piece, size);
}

bool DemangleInto(const char* mangled, Sink* sink) {
  if (setjmp(sink->too_long) != 0) return false;  // NOLINT(cert-err52-cpp)
  return __gcclibcxx_demangle_callback(mangled, &Collect, sink) == 0;
}

}  // namespace

std::string Demangle(const std::string& mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangledBytes) return mangled;
  Sink sink;
  return DemangleInto(mangled.c_str(), &sink) ? sink.text : mangled;
}

std::string BriefName(const std::string& demangled) {
  constexpr size_t kLongest = 100;
  const std::string name = demangled.starts_with("void ") ? demangled.substr(5) : demangled;
  std::string whole, brief;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins_parameters =
        name[i] == '(' && depth == 0 && i > 0 && name.compare(i, 11, "(anonymous ") != 0;
    if (begins_parameters) break;
    whole += name[i];
    if (name[i] == '>' && depth > 0) --depth;
    if (depth == 0) brief += name[i];
    if (name[i] == '<' && depth++ == 0) brief += "...";
  }
  return whole.size() > kLongest ? brief : whole;
}

}  // namespace cupel
