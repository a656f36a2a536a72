// The part of pybind11 that extensions of PyTorch use: modules of functions, named arguments with
// defaults, tuples and lists. Classes and enumerations compile, but tasks cannot use them. Keyword
// dictionaries and calls into Python are missing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/registry.h"
#include "pybind11/pytypes.h"

namespace pybind11 {

struct arg_v;
struct arg {
  constexpr explicit arg(const char* name_ = nullptr) : name(name_) {}
  template <class T>
  arg_v operator=(const T& value) const;
  arg& noconvert(bool flag = true) {
    convert = !flag;
    return *this;
  }
  arg& none(bool = true) { return *this; }
  const char* name;
  bool convert = true;
};
struct arg_v : arg {
  arg_v(const arg& a, cupel::shim::Value v) : arg(a), value(std::move(v)) {}
  template <class T>
  arg_v(const char* name_, const T& v) : arg(name_), value(cupel::shim::ToValue(v)) {}
  cupel::shim::Value value;
};
template <class T>
arg_v arg::operator=(const T& value) const {
  return arg_v(*this, cupel::shim::ToValue(value));
}
inline namespace literals {
constexpr arg operator"" _a(const char* name, size_t) { return arg(name); }
}  // namespace literals

// Extras of def() that have no effect here.
struct doc {
  explicit doc(const char*) {}
};
struct kw_only {};
struct pos_only {};
struct module_local {
  explicit module_local(bool = true) {}
};
struct dynamic_attr {};
struct arithmetic {};
struct buffer_protocol {};
template <size_t nurse, size_t patient>
struct keep_alive {};
template <class... A>
struct init_impl {};
template <class... A>
init_impl<A...> init(A&&...) {
  return {};
}
struct gil_scoped_release {
  gil_scoped_release() {}
  ~gil_scoped_release() {}
};
struct gil_scoped_acquire {
  gil_scoped_acquire() {}
  ~gil_scoped_acquire() {}
};
template <class... T>
struct call_guard {};
enum class return_value_policy : uint8_t {
  automatic,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal
};

#define CUPEL_PYTHON_ERROR(name)                                                 \
  class name : public c10::Error {                                               \
   public:                                                                       \
    using c10::Error::Error;                                                     \
    explicit name(const char* what = "") : Error(cupel::shim::Text() << what) {} \
  };
CUPEL_PYTHON_ERROR(value_error)
CUPEL_PYTHON_ERROR(type_error)
CUPEL_PYTHON_ERROR(index_error)
CUPEL_PYTHON_ERROR(key_error)
#undef CUPEL_PYTHON_ERROR

template <class... A>
struct overload_cast_impl {
  template <class R>
  constexpr auto operator()(R (*f)(A...)) const noexcept {
    return f;
  }
};
template <class... A>
constexpr overload_cast_impl<A...> overload_cast{};

class module_ {
 public:
  explicit module_(cupel::shim::Registry& registry) : registry_(&registry) {}
  template <class F, class... Extra>
  module_& def(const char* name, F&& f, const Extra&... extra) {
    cupel::shim::Function* function = cupel::shim::MakeFunction(name, std::forward<F>(f));
    size_t named = 0;
    (Apply(*function, named, extra), ...);
    registry_->Add(function, named);
    return *this;
  }
  // Attributes and the doc string may be set, but are never read.
  struct attribute {
    template <class T>
    attribute& operator=(const T&) {
      return *this;
    }
  };
  attribute attr(const char*) { return {}; }
  attribute doc() { return {}; }
  /// Its functions are called by their own names.
  module_ def_submodule(const char*, const char* = nullptr) { return *this; }
  cupel::shim::Registry& CupelRegistry() { return *registry_; }

 private:
  static void Apply(cupel::shim::Function& f, size_t& next, const arg& a) {
    cupel::shim::NameArgument(f, next, a.name, a.convert, nullptr);
  }
  static void Apply(cupel::shim::Function& f, size_t& next, const arg_v& a) {
    cupel::shim::NameArgument(f, next, a.name, a.convert, &a.value);
  }
  template <class T>
  static void Apply(cupel::shim::Function&, size_t&, const T&) {}

  cupel::shim::Registry* registry_;
};
using module = module_;

/// A class of the module. Nothing calls its methods.
template <class... T>
class class_ {
 public:
  template <class... Extra>
  class_(const module_&, const char*, const Extra&...) {}
#define CUPEL_IGNORED(name)                     \
  template <class... A>                         \
  class_& name(const A&...) {                   \
    return *this;                               \
  }                                             \
  template <class F, class... A>                \
  class_& name(const char*, F&&, const A&...) { \
    return *this;                               \
  }
  CUPEL_IGNORED(def)
  CUPEL_IGNORED(def_static)
  CUPEL_IGNORED(def_readwrite)
  CUPEL_IGNORED(def_readonly)
  CUPEL_IGNORED(def_property)
  CUPEL_IGNORED(def_property_readonly)
#undef CUPEL_IGNORED
};

/// An enumeration of the module. Its values are passed as integers.
template <class T>
class enum_ : public class_<T> {
 public:
  using class_<T>::class_;
  enum_& value(const char*, T, const char* = nullptr) { return *this; }
  enum_& export_values() { return *this; }
};

}  // namespace pybind11

#define PYBIND11_CONCAT(a, b) a##b
#define PYBIND11_MODULE(name, variable, ...)                                          \
  static void CUPEL_JOIN(cupel_module_, name)(::pybind11::module_&);                  \
  [[maybe_unused]] static void CUPEL_JOIN(cupel_start_,                               \
                                          name)(::cupel::shim::Registry & registry) { \
    CUPEL_SET_ENTRY(registry)                                                         \
    ::pybind11::module_ module(registry);                                             \
    CUPEL_JOIN(cupel_module_, name)(module);                                          \
  }                                                                                   \
  CUPEL_MODULE_ENTRY(CUPEL_JOIN(cupel_entry_, name), CUPEL_JOIN(cupel_start_, name))  \
  void CUPEL_JOIN(cupel_module_, name)([[maybe_unused]] ::pybind11::module_ & variable)
