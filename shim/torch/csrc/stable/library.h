// STABLE_TORCH_LIBRARY: operators by schema, as TORCH_LIBRARY (torch/library.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/csrc/stable/tensor.h"
#include "torch/library.h"

namespace torch::stable::detail {

/// A function that PyTorch calls with typed arguments. `&TORCH_BOX(f)` is the same.
template <class F>
struct Boxed {
  F* function;
  Boxed operator&() const { return *this; }
};
template <class F>
Boxed<F> Box(F* function) {
  return {function};
}

template <class F>
constexpr bool kHasFloat = false;
template <class R, class... A>
constexpr bool kHasFloat<R(A...)> = (std::is_same_v<std::decay_t<A>, float> || ...);

/// A function that takes its arguments from a stack of words and leaves its results there.
using StackFunction = void(StableIValue*, uint64_t, uint64_t);
/// An operator of that function. Its schema says what the words mean.
cupel::shim::Function* MakeStackFunction(const char* name, StackFunction* function);

/// torch::Library without what the stable ABI does not have.
class StableLibrary {
 public:
  explicit StableLibrary(torch::Library& library) : library_(library) {}
  StableLibrary& def(const char* schema, const std::vector<at::Tag>& = {}) {
    library_.def(schema);
    return *this;
  }
  template <class F>
  StableLibrary& impl(const char* name, Boxed<F> boxed) {
    static_assert(
        !kHasFloat<F>,
        "a function for TORCH_BOX with a float argument: PyTorch needs double, and passes "
        "other numbers to this one");
    library_.AddBoxed(
        name, [&](const char* bare) { return cupel::shim::MakeFunction(bare, boxed.function); });
    return *this;
  }
  StableLibrary& impl(const char* name, StackFunction* function) {
    library_.AddBoxed(name, [&](const char* bare) { return MakeStackFunction(bare, function); });
    return *this;
  }
  StableLibrary& set_python_module(const char*, const char* = "") { return *this; }

 private:
  torch::Library& library_;
};

#if CUPEL_BODIES
CUPEL_INLINE bool CallStackFunction(cupel::shim::Function& self, cupel::shim::Frame& frame) {
  if (!self.schema)
    cupel::shim::Refuse("wrong_arguments", cupel::shim::Text()
                                               << self.name
                                               << " is a boxed function without a schema");
  const cupel::shim::Schema& schema = *self.schema;
  const size_t count = schema.arguments.size(), results = schema.results.size();
  std::vector<StableIValue> stack(std::max(count, results) + 1);
  for (size_t i = 0; i < count; ++i) {
    const char* type = schema.arguments[i].type.c_str();
    if (!WordOf(frame.args[i], type, std::strlen(type), &stack[i])) {
      frame.bad = static_cast<int>(i);
      return false;
    }
  }
  StackFunction* function = *static_cast<StackFunction**>(self.callable);
  function(stack.data(), count, results);
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < results; ++i) {
    if (std::strcmp(schema.results[i].c_str(), "Tensor") != 0)
      cupel::shim::Refuse("unsupported_api", cupel::shim::Text()
                                                 << "a boxed function of the stable ABI that "
                                                    "returns "
                                                 << schema.results[i]);
    tensors.push_back(to<Tensor>(stack[i]).AsAten());
  }
  cupel::shim::Arena arena;
  CupelValue out = {};
  if (results == 1) {
    cupel::shim::Caster<at::Tensor>::Give(arena, out, tensors[0]);
  } else if (results > 1) {
    cupel::shim::GiveAll(arena, out, tensors);
  }
  frame.ret(frame.context, &out);
  return true;
}
CUPEL_INLINE cupel::shim::Function* MakeStackFunction(const char* name, StackFunction* function) {
  cupel::shim::Function* made = cupel::shim::NewFunction(name, 0);
  made->is_boxed = true;
  made->callable = new StackFunction*(function);
  made->invoke = CallStackFunction;
  made->type_name = [](cupel::shim::Text& text, int) { text << "value of its schema"; };
  return made;
}
#endif

}  // namespace torch::stable::detail

#define TORCH_BOX(function) ::torch::stable::detail::Box(function)

#define CUPEL_STABLE_LIBRARY(id, key, space, m)                                       \
  static void CUPEL_JOIN(cupel_stable_, id)(::torch::stable::detail::StableLibrary&); \
  CUPEL_LIBRARY_(id, key, space, cupel_library) {                                     \
    ::torch::stable::detail::StableLibrary stable(cupel_library);                     \
    CUPEL_JOIN(cupel_stable_, id)(stable);                                            \
  }                                                                                   \
  void CUPEL_JOIN(cupel_stable_, id)([[maybe_unused]] ::torch::stable::detail::StableLibrary & m)
#define CUPEL_STABLE_LIBRARY_(id, key, space, m) CUPEL_STABLE_LIBRARY(id, key, space, m)
#define STABLE_TORCH_LIBRARY(ns, m) \
  CUPEL_STABLE_LIBRARY_(CUPEL_JOIN(ns##_, __COUNTER__), CatchAll, ns, m)
#define STABLE_TORCH_LIBRARY_FRAGMENT(ns, m) STABLE_TORCH_LIBRARY(ns, m)
#define STABLE_TORCH_LIBRARY_IMPL(ns, key, m) \
  CUPEL_STABLE_LIBRARY_(CUPEL_JOIN(ns##_, __COUNTER__), key, ns, m)
