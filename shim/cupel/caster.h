// Casters convert one argument or result between CupelValue and C++, by pybind11's rules.
// `convert` is pybind11's second pass, in which an int fits a double, None fits a bool, and so on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/value.h"

namespace cupel::shim {

/// Owns the memory of the result's tuples while the recorder reads it.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (CupelValue* block : blocks_) delete[] block;
  }
  CupelValue* Items(size_t count) {
    blocks_.push_back(new CupelValue[count + 1]());
    return blocks_.back();
  }

 private:
  std::vector<CupelValue*> blocks_;
};

/// Reads a number from `value`. One-element tensors count as numbers (they have __float__ and
/// __int__).
bool LoadDouble(const CupelValue& value, bool convert, double* out);
bool LoadInteger(const CupelValue& value, bool convert, int64_t* out);
bool LoadBool(const CupelValue& value, bool convert, bool* out);

/// Any other type: a function with such an argument or result compiles, but cannot be called.
template <class T, class = void>
struct Caster {
  union {
    T value;  // never constructed
  };
  Caster() {}
  ~Caster() {}
  bool Load(const CupelValue&, bool) { return false; }
  static void Name(Text& text) { text << "value of a C++ type that cupel's pybind11 lacks"; }
  static void Give(Arena&, CupelValue&, const T&) {
    Refuse("unsupported_api", Text() << "a result of a C++ type that cupel's pybind11 lacks");
  }
};

template <>
struct Caster<at::Tensor> {
  at::Tensor value;
  bool Load(const CupelValue& v, bool) {
    if (v.kind != CUPEL_TENSOR) return false;
    value = at::Tensor(Borrow(*v.tensor));
    return true;
  }
  static void Name(Text& text) { text << "Tensor"; }
  static void Give(Arena&, CupelValue& out, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    out.kind = CUPEL_TENSOR;
    out.tensor = &tensor.d();
  }
};

template <class T>
struct Caster<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  T value = 0;
  bool Load(const CupelValue& v, bool convert) {
    double d = 0;
    bool ok = LoadDouble(v, convert, &d);
    value = static_cast<T>(d);
    return ok;
  }
  static void Name(Text& text) { text << "float"; }
  static void Give(Arena&, CupelValue& out, T v) {
    out.kind = CUPEL_DOUBLE;
    out.d = static_cast<double>(v);
  }
};

template <class T>
struct Caster<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                  !std::is_same_v<T, char>>> {
  T value = 0;
  bool Load(const CupelValue& v, bool convert) {
    int64_t i = 0;
    if (!LoadInteger(v, convert, &i)) return false;
    if (std::is_unsigned_v<T> && i < 0) return false;
    value = static_cast<T>(i);
    return static_cast<int64_t>(value) == i;  // pybind11 rejects values out of range
  }
  static void Name(Text& text) { text << "int"; }
  static void Give(Arena&, CupelValue& out, T v) {
    out.kind = CUPEL_INT;
    out.i = static_cast<int64_t>(v);
  }
};

template <class T>
struct Caster<T, std::enable_if_t<std::is_enum_v<T>>> {
  T value = {};
  bool Load(const CupelValue& v, bool convert) {
    int64_t i = 0;
    bool ok = LoadInteger(v, convert, &i);
    value = static_cast<T>(i);
    return ok;
  }
  static void Name(Text& text) { text << "int"; }
  static void Give(Arena& arena, CupelValue& out, T v) {
    Caster<int64_t>::Give(arena, out, static_cast<int64_t>(v));
  }
};

template <>
struct Caster<bool> {
  bool value = false;
  bool Load(const CupelValue& v, bool convert) { return LoadBool(v, convert, &value); }
  static void Name(Text& text) { text << "bool"; }
  static void Give(Arena&, CupelValue& out, bool v) {
    out.kind = CUPEL_BOOL;
    out.i = v;
  }
};

template <>
struct Caster<c10::Scalar> {
  c10::Scalar value;
  bool Load(const CupelValue& v, bool convert) {
    if (v.kind == CUPEL_BOOL) value = v.i != 0;
    if (v.kind == CUPEL_INT) value = v.i;
    if (v.kind == CUPEL_DOUBLE) value = v.d;
    if (v.kind == CUPEL_TENSOR && convert) {
      at::Tensor t(Borrow(*v.tensor));
      if (t.numel() != 1) return false;
      value = t.item();
      return true;
    }
    return v.kind >= CUPEL_BOOL && v.kind <= CUPEL_DOUBLE;
  }
  static void Name(Text& text) { text << "Union[int, float, bool]"; }
  static void Give(Arena& arena, CupelValue& out, const c10::Scalar& v) {
    if (v.isFloatingPoint()) return Caster<double>::Give(arena, out, v.toDouble());
    if (v.isBoolean()) return Caster<bool>::Give(arena, out, v.toBool());
    Caster<int64_t>::Give(arena, out, v.toLong());
  }
};

template <>
struct Caster<const char*> {
  Text text;
  const char* value = "";
  bool Load(const CupelValue& v, bool) {
    if (v.kind != CUPEL_STRING) return false;
    text.Append(v.s, static_cast<size_t>(v.count));
    value = text.c_str();
    return true;
  }
  static void Name(Text& text) { text << "str"; }
  static void Give(Arena&, CupelValue& out, const char* v) {
    if (!v) return;
    out.kind = CUPEL_STRING;
    out.s = v;
    out.count = static_cast<int32_t>(std::strlen(v));
  }
};

#ifndef CUPEL_LEAN_STRING
template <class T>
struct Caster<
    T, std::enable_if_t<std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>>> {
  T value;
  bool Load(const CupelValue& v, bool) {
    if (v.kind == CUPEL_STRING) value = T(v.s, static_cast<size_t>(v.count));
    return v.kind == CUPEL_STRING;
  }
  static void Name(Text& text) { text << "str"; }
  static void Give(Arena&, CupelValue& out, const T& v) {
    out.kind = CUPEL_STRING;
    out.s = v.data();
    out.count = static_cast<int32_t>(v.size());
  }
};
#endif

template <class T>
struct Caster<
    T, std::enable_if_t<std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>>> {
  static void Give(Arena&, CupelValue&, T) {}
};

template <class T>
struct Caster<std::optional<T>> {
  std::optional<T> value;
  bool Load(const CupelValue& v, bool convert) {
    if (v.kind == CUPEL_NONE) return true;
    Caster<T> inner;
    if (!inner.Load(v, convert)) return false;
    value.emplace(std::move(inner.value));
    return true;
  }
  static void Name(Text& text) {
    text << "Optional[";
    Caster<T>::Name(text);
    text << ']';
  }
  static void Give(Arena& arena, CupelValue& out, const std::optional<T>& v) {
    if (v) Caster<T>::Give(arena, out, *v);
  }
};

template <class List>
void GiveAll(Arena& arena, CupelValue& out, const List& list) {
  out.kind = CUPEL_TUPLE;
  out.count = static_cast<int32_t>(list.size());
  CupelValue* items = arena.Items(list.size());
  out.items = items;
  for (const auto& v : list) Caster<std::decay_t<decltype(v)>>::Give(arena, *items++, v);
}

template <class T>
struct Caster<std::vector<T>> {
  std::vector<T> value;
  bool Load(const CupelValue& v, bool convert) {
    if (v.kind != CUPEL_TUPLE) return false;
    for (int i = 0; i < v.count; ++i) {
      Caster<T> inner;
      if (!inner.Load(v.items[i], convert)) return false;
      value.push_back(std::move(inner.value));
    }
    return true;
  }
  static void Name(Text& text) {
    text << "List[";
    Caster<T>::Name(text);
    text << ']';
  }
  static void Give(Arena& arena, CupelValue& out, const std::vector<T>& v) {
    GiveAll(arena, out, v);
  }
};

template <class T>
struct Caster<c10::ArrayRef<T>> {
  Caster<std::vector<T>> owner;
  c10::ArrayRef<T> value;
  bool Load(const CupelValue& v, bool convert) {
    if (!owner.Load(v, convert)) return false;
    new (&value) c10::ArrayRef<T>(owner.value);
    return true;
  }
  static void Name(Text& text) { Caster<std::vector<T>>::Name(text); }
  static void Give(Arena& arena, CupelValue& out, c10::ArrayRef<T> v) { GiveAll(arena, out, v); }
};

template <class T, size_t N>
struct Caster<std::array<T, N>> {
  std::array<T, N> value;
  bool Load(const CupelValue& v, bool convert) {
    if (v.kind != CUPEL_TUPLE || v.count != static_cast<int32_t>(N)) return false;
    for (size_t i = 0; i < N; ++i) {
      Caster<T> inner;
      if (!inner.Load(v.items[i], convert)) return false;
      value[i] = std::move(inner.value);
    }
    return true;
  }
  static void Name(Text& text) {
    text << "List[";
    Caster<T>::Name(text);
    text << "] of " << N;
  }
  static void Give(Arena& arena, CupelValue& out, const std::array<T, N>& v) {
    GiveAll(arena, out, v);
  }
};

/// std::tuple and std::pair.
template <class Tuple, class... T>
struct TupleCaster {
  Tuple value;
  bool Load(const CupelValue& v, bool convert) {
    return v.kind == CUPEL_TUPLE && v.count == static_cast<int32_t>(sizeof...(T)) &&
           LoadItems(v, convert, std::index_sequence_for<T...>());
  }
  template <size_t... I>
  bool LoadItems(const CupelValue& v, bool convert, std::index_sequence<I...>) {
    std::tuple<Caster<T>...> casters;
    if (!(std::get<I>(casters).Load(v.items[I], convert) && ...)) return false;
    value = Tuple(std::move(std::get<I>(casters).value)...);
    return true;
  }
  static void Name(Text& text) {
    text << "Tuple[";
    const char* comma = "";
    ((text << comma, Caster<T>::Name(text), comma = ", "), ...);
    text << ']';
  }
  template <size_t... I>
  static void GiveItems(Arena& arena, CupelValue* items, const Tuple& v,
                        std::index_sequence<I...>) {
    (Caster<T>::Give(arena, items[I], std::get<I>(v)), ...);
  }
  static void Give(Arena& arena, CupelValue& out, const Tuple& v) {
    CupelValue* items = arena.Items(sizeof...(T));
    out.kind = CUPEL_TUPLE;
    out.count = static_cast<int32_t>(sizeof...(T));
    out.items = items;
    GiveItems(arena, items, v, std::index_sequence_for<T...>());
  }
};
template <class... T>
struct Caster<std::tuple<T...>> : TupleCaster<std::tuple<T...>, std::decay_t<T>...> {};
template <class A, class B>
struct Caster<std::pair<A, B>> : TupleCaster<std::pair<A, B>, A, B> {};

/// Value and the classes of pybind11 that derive from it.
template <class T>
struct Caster<T, std::enable_if_t<std::is_base_of_v<Value, T>>> {
  T value;
  bool Load(const CupelValue& v, bool) {
    if (!T::Accepts(v)) return false;
    static_cast<Value&>(value) = Value(v);
    return true;
  }
  static void Name(Text& text) { text << T::TypeName(); }
  static void Give(Arena&, CupelValue& out, const Value& v) { out = v.raw(); }
};

/// A C++ value as a Value that owns what it needs.
template <class T>
Value ToValue(const T& v) {
  using Plain = std::decay_t<T>;
  if constexpr (std::is_same_v<Plain, at::Tensor>) {
    return Value(v);
  } else {
    Arena arena;
    CupelValue raw = {};
    Caster<std::conditional_t<std::is_same_v<Plain, char*>, const char*, Plain>>::Give(arena, raw,
                                                                                       v);
    return Value(raw);
  }
}

#if CUPEL_BODIES
CUPEL_INLINE bool LoadDouble(const CupelValue& v, bool convert, double* out) {
  if (v.kind == CUPEL_DOUBLE) return *out = v.d, true;
  if (!convert) return false;
  if (v.kind == CUPEL_INT || v.kind == CUPEL_BOOL) return *out = static_cast<double>(v.i), true;
  Caster<c10::Scalar> scalar;
  if (v.kind != CUPEL_TENSOR || !scalar.Load(v, convert)) return false;
  return *out = scalar.value.toDouble(), true;
}
CUPEL_INLINE bool LoadInteger(const CupelValue& v, bool convert, int64_t* out) {
  if (v.kind == CUPEL_INT || v.kind == CUPEL_BOOL) return *out = v.i, true;
  Caster<c10::Scalar> scalar;
  if (v.kind != CUPEL_TENSOR || !convert || !scalar.Load(v, convert)) return false;
  return *out = scalar.value.toLong(), true;
}
CUPEL_INLINE bool LoadBool(const CupelValue& v, bool convert, bool* out) {
  if (v.kind == CUPEL_BOOL) return *out = v.i != 0, true;
  if (!convert) return false;
  if (v.kind == CUPEL_NONE) return *out = false, true;
  Caster<c10::Scalar> scalar;
  if (!scalar.Load(v, convert)) return false;
  return *out = scalar.value.toBool(), true;
}
#endif

}  // namespace cupel::shim
