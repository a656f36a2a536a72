// Value: a Python object of a kind that a call can pass (None, bool, int, float, str, Tensor,
// tuple). The base of pybind11::object; also stores the defaults of arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/factories.h"

namespace cupel::shim {

class Value {
 public:
  Value();
  /// A copy of `value` that owns its data, except tensors, which it borrows from the recorder.
  explicit Value(const CupelValue& value);
  explicit Value(const at::Tensor& tensor);
  explicit Value(std::vector<Value> items);
  Value(const Value& other);
  Value& operator=(Value other) {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Value();
  const CupelValue& raw() const;
  const std::vector<Value>& items() const;
  void Append(const Value& item);
  void Set(size_t index, const Value& item);

 private:
  struct Node;
  void Refresh();
  Node* node_;
};

/// "int", "Tensor", "tuple of 2" ...
void AppendKind(Text& text, const CupelValue& value);

#if CUPEL_BODIES
struct Value::Node {
  int references = 1;
  CupelValue raw = {};
  Text text;
  at::Tensor tensor;
  std::vector<Value> items;
  std::vector<CupelValue> raw_items;
};
CUPEL_INLINE const CupelValue& Value::raw() const { return node_->raw; }
CUPEL_INLINE const std::vector<Value>& Value::items() const { return node_->items; }
CUPEL_INLINE Value::Value(const Value& other) : node_(other.node_) { ++node_->references; }
CUPEL_INLINE Value::Value() : node_(new Node) {}
CUPEL_INLINE Value::Value(const at::Tensor& tensor) : node_(new Node) {
  node_->tensor = tensor;
  if (!tensor.defined()) return;
  node_->raw.kind = CUPEL_TENSOR;
  node_->raw.tensor = &node_->tensor.d();
}
CUPEL_INLINE Value::Value(std::vector<Value> items) : node_(new Node) {
  node_->items = std::move(items);
  Refresh();
}
CUPEL_INLINE Value::Value(const CupelValue& value) : node_(new Node) {
  node_->raw = value;
  if (value.kind == CUPEL_STRING) {
    node_->text.Append(value.s, static_cast<size_t>(value.count));
    node_->raw.s = node_->text.c_str();
  } else if (value.kind == CUPEL_TENSOR) {
    node_->tensor = at::Tensor(Borrow(*value.tensor));
    node_->raw.tensor = &node_->tensor.d();
  } else if (value.kind == CUPEL_TUPLE) {
    for (int i = 0; i < value.count; ++i) node_->items.push_back(Value(value.items[i]));
    Refresh();
  }
}
CUPEL_INLINE Value::~Value() {
  if (--node_->references == 0) delete node_;
}
CUPEL_INLINE void Value::Refresh() {
  node_->raw_items.clear();
  for (const Value& item : node_->items) node_->raw_items.push_back(item.raw());
  node_->raw.kind = CUPEL_TUPLE;
  node_->raw.count = static_cast<int32_t>(node_->items.size());
  node_->raw.items = node_->raw_items.data();
}
CUPEL_INLINE void Value::Append(const Value& item) {
  node_->items.push_back(item);
  Refresh();
}
CUPEL_INLINE void Value::Set(size_t index, const Value& item) {
  node_->items.at(index) = item;
  Refresh();
}
CUPEL_INLINE void AppendKind(Text& text, const CupelValue& value) {
  constexpr const char* kNames[] = {"None", "bool", "int", "float", "str", "Tensor"};
  if (value.kind == CUPEL_TUPLE) {
    text << "a tuple of " << value.count;
  } else if (value.kind >= 0 && value.kind < CUPEL_TUPLE) {
    text << kNames[value.kind];
  } else {
    text << "an unknown kind of value";
  }
}
#endif

}  // namespace cupel::shim
