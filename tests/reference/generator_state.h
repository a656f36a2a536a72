// The generator of random programs, for generator*.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/random.h"
#include "generator.h"
#include "generator_ops.h"

namespace cupel::reference {

inline constexpr int kCopies = 32;  // pairs of registers that are written in only one place

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(Random(seed).Fork("ptx program")) {
    program_.seed = seed;
  }
  Program Run();

 private:
  size_t Below(size_t bound) { return random_.Below(bound); }
  bool Chance(size_t in) { return Below(in) == 0; }
  std::string Register(char letter) {
    return fmt::format("%{}{}", letter, Below(static_cast<size_t>(ClassOf(letter).count)));
  }
  std::string Label() { return fmt::format("L{}", labels_++); }
  std::string Source(char letter);
  void Line(const std::string& text) { out_ += text + ";\n"; }
  template <class... A>
  void Emit(fmt::format_string<A...> format, A&&... a) {
    Line(fmt::format(format, std::forward<A>(a)...));
  }

  void Functions();
  void Prologue();
  void Epilogue();
  void Statement(int depth);
  void Statements(size_t count, int depth) {
    for (size_t i = 0; i < count; ++i) Statement(depth);
  }
  /// `guarded`: the caller adds a predicate to the statement.
  void Arithmetic(bool guarded = false);
  void Guarded();
  void If(int depth);
  void Loop(int depth);
  void Kept(int depth, int copy);
  void Switch(int depth);
  void Carry();
  void Local();
  void Atomic();
  void Commutative();
  void Call();
  void Exchange();
  void Shuffle();
  void Together();
  void Masked();

  Random random_;
  Program program_;
  std::string out_;
  int labels_ = 0;
  int copies_ = 0;
};

}  // namespace cupel::reference
