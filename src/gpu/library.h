// Opens libraries at run time, so that one binary works on machines with and without them. They
// stay open until the process ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace cupel::gpu {

/// Opens the first of `names` that the loader finds. Null if it finds none.
inline void* OpenLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

/// Sets function pointers by name and remembers the first name that the library lacks.
class EntryPoints {
 public:
  explicit EntryPoints(void* library) : library_(library) {}

  template <class Function>
  void Find(Function*& function, const char* name) {
    void* symbol = dlsym(library_, name);
    if (symbol == nullptr && missing_ == nullptr) missing_ = name;
    function = reinterpret_cast<Function*>(symbol);
  }
  /// Sets the pointer to null if the library is too old for the function.
  template <class Function>
  void FindOptional(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  /// Null if no function is missing.
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace cupel::gpu
