// TORCH_LIBRARY: operators by schema. Names and defaults of arguments come from the schema.
// Functions for devices other than CUDA (CPU, Meta ...) are left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/registry.h"

namespace c10 {
enum class DispatchKey {
  Undefined,
  CPU,
  CUDA,
  Meta,
  BackendSelect,
  Autograd,
  AutogradCPU,
  AutogradCUDA,
  AutogradOther,
  Autocast,
  AutocastCPU,
  AutocastCUDA,
  ADInplaceOrView,
  QuantizedCPU,
  QuantizedCUDA,
  SparseCPU,
  SparseCUDA,
  MkldnnCPU,
  HIP,
  MPS,
  XPU,
  PrivateUse1,
  CompositeImplicitAutograd,
  CompositeExplicitAutograd,
  CatchAll
};
}  // namespace c10

namespace at {
enum class Tag { core, pt2_compliant_tag, needs_fixed_stride_order, flexible_layout };
}  // namespace at

namespace torch {

using c10::DispatchKey;

/// A function and its dispatch key.
template <class F>
struct CupelKeyed {
  DispatchKey key;
  F function;
};
template <class F>
CupelKeyed<std::decay_t<F>> dispatch(DispatchKey key, F&& f) {
  return {key, std::forward<F>(f)};
}
template <class F>
CupelKeyed<std::decay_t<F>> dispatch(c10::DeviceType type, F&& f) {
  return {type == c10::kCUDA ? DispatchKey::CUDA : DispatchKey::CPU, std::forward<F>(f)};
}

/// A schema, for Library::def. Tags of operators have no effect.
inline const char* schema(const char* text) { return text; }

/// A function of a TORCH_LIBRARY_IMPL that has no code of its own.
struct CppFunction {
  static CppFunction makeFallthrough() { return {}; }
};

/// Arguments that PyTorch refuses to compile for operators.
template <class A>
struct CupelCheckArgument {
  using Plain = std::decay_t<A>;
  static_assert(!std::is_same_v<Plain, float>,
                "an operator's function with a float argument: PyTorch needs double");
  static_assert(!std::is_integral_v<Plain> || std::is_same_v<Plain, int64_t> ||
                    std::is_same_v<Plain, int8_t> || std::is_same_v<Plain, bool>,
                "an operator's function with a short integer argument: PyTorch needs int64_t");
  static constexpr bool kFits = true;
};
template <class S>
struct CupelCheckArguments;
template <class R, class... A>
struct CupelCheckArguments<R(A...)> {
  static constexpr bool kFit = (CupelCheckArgument<A>::kFits && ...);
};

class Library {
 public:
  Library(cupel::shim::Registry& registry, DispatchKey key, const char* space)
      : registry_(&registry), key_(key), space_(space) {}
  /// Adds only a schema: names and defaults for the functions that impl() adds.
  Library& def(const char* schema, const std::vector<at::Tag>& tags = {});
  template <class F>
  Library& def(const char* schema, F&& f, const std::vector<at::Tag>& = {}) {
    if (std::strchr(schema, '(')) def(schema);  // otherwise a name, and PyTorch infers the schema
    return impl(Key(schema).c_str(), std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, F&& f) {
    return Add(name, key_, std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, DispatchKey key, F&& f) {
    return Add(name, key, std::forward<F>(f));
  }
  template <class F>
  Library& impl(const char* name, c10::DeviceType type, F&& f) {
    return impl(name, dispatch(type, std::forward<F>(f)));
  }
#ifndef CUPEL_LEAN_STRING
  template <class... F>
  Library& def(const std::string& schema, F&&... f) {
    return def(schema.c_str(), std::forward<F>(f)...);
  }
#endif
  Library& impl(const char*, CppFunction) { return *this; }
  template <class F>
  Library& fallback(F&&) {
    return *this;
  }
  Library& set_python_module(const char*, const char* = "") { return *this; }
  /// The shim's own: `make(name)` makes the operator, without a namespace in its name.
  template <class Make>
  void AddBoxed(const char* name, Make make) {
    if (RunsOnCuda(key_)) registry_->AddOperator(make(Name(name).c_str()), Key(name).c_str());
  }

 private:
  static cupel::shim::Text Name(const char* schema);
  cupel::shim::Text Key(const char* schema) const;
  static bool RunsOnCuda(DispatchKey key) {
    return key == DispatchKey::CUDA || key >= DispatchKey::CompositeImplicitAutograd;
  }
  template <class F>
  Library& Add(const char* name, DispatchKey key, CupelKeyed<F> keyed) {
    return Add(name, key_ == DispatchKey::CatchAll ? keyed.key : key, std::move(keyed.function));
  }
  template <class F>
  Library& Add(const char* name, DispatchKey key, F&& f) {
    using Signature = typename cupel::shim::SignatureOf<std::decay_t<F>>::Type;
    static_assert(CupelCheckArguments<Signature>::kFit);
    if (!RunsOnCuda(key)) return *this;
    cupel::shim::Text bare = Name(name);
    registry_->AddOperator(cupel::shim::MakeFunction(bare.c_str(), std::forward<F>(f)),
                           Key(name).c_str());
    return *this;
  }
  cupel::shim::Registry* registry_;
  DispatchKey key_;
  const char* space_;
};

#if CUPEL_BODIES
/// "ns::name.overload(Tensor x) -> Tensor" gives "name".
CUPEL_INLINE cupel::shim::Text Library::Name(const char* schema) {
  while (cupel::shim::IsBlank(*schema)) ++schema;
  size_t length = std::strcspn(schema, "(. \t\r\n");
  for (size_t i = length; i > 1; --i) {
    if (schema[i - 1] != ':') continue;
    schema += i;
    length -= i;
    break;
  }
  cupel::shim::Text name;
  name.Append(schema, length);
  return name;
}
/// "name.overload(Tensor x) -> Tensor" gives "ns::name.overload".
CUPEL_INLINE cupel::shim::Text Library::Key(const char* schema) const {
  while (cupel::shim::IsBlank(*schema)) ++schema;
  const size_t length = std::strcspn(schema, "( \t\r\n");
  cupel::shim::Text key;
  const char* colons = std::strstr(schema, "::");
  if (!colons || colons > schema + length) key << space_ << "::";
  key.Append(schema, length);
  return key;
}
CUPEL_INLINE Library& Library::def(const char* schema, const std::vector<at::Tag>&) {
  registry_->AddSchema(Key(schema).c_str(), schema);
  return *this;
}
#endif

}  // namespace torch

#define TORCH_FN(f) (&f)
#define TORCH_FN_TYPE(f) decltype(&f)
#define TORCH_SELECTIVE_SCHEMA(schema) schema
#define TORCH_SELECTIVE_NAME(name) name
#define CUPEL_LIBRARY(id, key, space, m)                                                          \
  static void CUPEL_JOIN(cupel_library_, id)(::torch::Library&);                                  \
  [[maybe_unused]] static void CUPEL_JOIN(cupel_start_, id)(::cupel::shim::Registry & registry) { \
    CUPEL_SET_ENTRY(registry)                                                                     \
    ::torch::Library library(registry, ::c10::DispatchKey::key, CUPEL_STRING(space));             \
    CUPEL_JOIN(cupel_library_, id)(library);                                                      \
  }                                                                                               \
  CUPEL_MODULE_ENTRY(CUPEL_JOIN(cupel_entry_, id), CUPEL_JOIN(cupel_start_, id))                  \
  void CUPEL_JOIN(cupel_library_, id)([[maybe_unused]] ::torch::Library & m)
#define CUPEL_LIBRARY_(id, key, space, m) CUPEL_LIBRARY(id, key, space, m)
#define TORCH_LIBRARY(ns, m) CUPEL_LIBRARY_(CUPEL_JOIN(ns##_, __COUNTER__), CatchAll, ns, m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) TORCH_LIBRARY(ns, m)
#define TORCH_LIBRARY_IMPL(ns, key, m) CUPEL_LIBRARY_(CUPEL_JOIN(ns##_, __COUNTER__), key, ns, m)
