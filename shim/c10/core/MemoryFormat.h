// Layouts and memory formats. All tensors are strided; the channels-last formats are supported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/text.h"

namespace c10 {

enum class Layout : int8_t { Strided, Sparse };
constexpr Layout kStrided = Layout::Strided;
constexpr Layout kSparse = Layout::Sparse;

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

inline void AppendText(cupel::shim::Text& text, Layout layout) {
  text << (layout == kStrided ? "Strided" : "Sparse");
}
inline void AppendText(cupel::shim::Text& text, MemoryFormat format) {
  constexpr const char* kNames[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  text << kNames[static_cast<int>(format)];
}
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, Layout layout) {
  cupel::shim::Text text;
  AppendText(text, layout);
  return out << text.c_str();
}
template <class C>
std::basic_ostream<C>& operator<<(std::basic_ostream<C>& out, MemoryFormat format) {
  cupel::shim::Text text;
  AppendText(text, format);
  return out << text.c_str();
}

}  // namespace c10
