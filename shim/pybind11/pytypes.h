// pybind11's object types over cupel::shim::Value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/caster.h"

namespace pybind11 {

using ssize_t = long;

class cast_error : public c10::Error {
  using c10::Error::Error;
};

class object : public cupel::shim::Value {
 public:
  object() = default;
  object(const cupel::shim::Value& value) : Value(value) {}
  template <class T>
  T cast() const {
    cupel::shim::CasterFor<T> caster;
    if (!caster.Load(raw(), true)) {
      cupel::shim::Text text;
      text << "Unable to cast Python instance of type ";
      cupel::shim::AppendKind(text, raw());
      text << " to C++ type '";
      decltype(caster)::Name(text);
      cupel::shim::Throw<cast_error>(text << "'");
    }
    return caster.value;
  }
  bool is_none() const { return raw().kind == CUPEL_NONE; }
  /// As Python's `is`, which is meant for None.
  bool is(const object& other) const {
    return (is_none() && other.is_none()) || &raw() == &other.raw();
  }
  explicit operator bool() const { return true; }
  static bool Accepts(const CupelValue&) { return true; }
  static const char* TypeName() { return "object"; }
};
using handle = object;

class sequence : public object {
 public:
  sequence() : object(Value(std::vector<Value>())) {}
  /// One item, to read or to write: t[0] = value, t[0].cast<int>().
  class item {
   public:
    item(sequence* owner, size_t index) : owner_(owner), index_(index) {}
    operator object() const { return owner_->items().at(index_); }
    template <class T>
    T cast() const {
      return object(*this).cast<T>();
    }
    template <class T>
    item& operator=(const T& value) {
      owner_->Set(index_, cupel::shim::ToValue(value));
      return *this;
    }

   private:
    sequence* owner_;
    size_t index_;
  };
  size_t size() const { return items().size(); }
  bool empty() const { return items().empty(); }
  item operator[](size_t index) { return item(this, index); }
  object operator[](size_t index) const { return items().at(index); }
  std::vector<object> objects() const { return {items().begin(), items().end()}; }
  static bool Accepts(const CupelValue& v) { return v.kind == CUPEL_TUPLE; }
  static const char* TypeName() { return "Sequence"; }
  sequence(const object& o) : object(o) { CheckKind(Accepts(raw()), "sequence"); }

  struct iterator {
    const Value* at;
    object operator*() const { return *at; }
    iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(const iterator& other) const { return at != other.at; }
    bool operator==(const iterator& other) const { return at == other.at; }
  };
  iterator begin() const { return {items().data()}; }
  iterator end() const { return {items().data() + items().size()}; }

 protected:
  static void CheckKind(bool ok, const char* python) {
    TORCH_CHECK_TYPE(ok, "Object of another type is not an instance of '", python, "'");
  }
};

class tuple : public sequence {
 public:
  explicit tuple(size_t size = 0) {
    for (size_t i = 0; i < size; ++i) Append(Value());
  }
  tuple(const object& o) : sequence(o) {}
  static const char* TypeName() { return "tuple"; }
};

class list : public sequence {
 public:
  explicit list(size_t size = 0) {
    for (size_t i = 0; i < size; ++i) Append(Value());
  }
  list(const object& o) : sequence(o) {}
  static const char* TypeName() { return "list"; }
  template <class T>
  void append(const T& value) {
    Append(cupel::shim::ToValue(value));
  }
};

class none : public object {};

#define CUPEL_PYTHON_SCALAR(name, python, kind_, T)                        \
  class name : public object {                                             \
   public:                                                                 \
    name(T value = T()) : object(cupel::shim::ToValue(value)) {}           \
    operator T() const { return cast<T>(); }                               \
    static bool Accepts(const CupelValue& v) { return v.kind == (kind_); } \
    static const char* TypeName() { return python; }                       \
  };
CUPEL_PYTHON_SCALAR(int_, "int", CUPEL_INT, int64_t)
CUPEL_PYTHON_SCALAR(float_, "float", CUPEL_DOUBLE, double)
CUPEL_PYTHON_SCALAR(bool_, "bool", CUPEL_BOOL, bool)
#ifndef CUPEL_LEAN_STRING
CUPEL_PYTHON_SCALAR(str, "str", CUPEL_STRING, std::string)
#endif
#undef CUPEL_PYTHON_SCALAR

template <class T>
object cast(const T& value) {
  return cupel::shim::ToValue(value);
}
template <class T>
T cast(const object& value) {
  return value.cast<T>();
}
template <class... T>
tuple make_tuple(const T&... values) {
  tuple result;
  (result.Append(cupel::shim::ToValue(values)), ...);
  return result;
}
inline size_t len(const sequence& s) { return s.size(); }
template <class T>
bool isinstance(const object& o) {
  return T::Accepts(o.raw());
}

}  // namespace pybind11
