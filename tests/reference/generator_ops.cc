// SPDX-License-Identifier: Apache-2.0
#include "generator_ops.h"

#include <algorithm>
#include <cstdlib>

namespace cupel::reference {
namespace {

class Builder {
 public:
  void Add(std::string mnemonic, std::string classes, std::string suffix = {},
           bool divides = false) {
    list_.push_back({std::move(mnemonic), std::move(classes), std::move(suffix), divides});
  }
  std::vector<Template> Take() { return std::move(list_); }

 private:
  std::vector<Template> list_;
};

std::string Repeat(char c, int n) { return std::string(static_cast<size_t>(n), c); }

void AddIntegers(Builder& b) {
  struct Width {
    char letter;
    const char* bits;
  };
  for (const Width& w : {Width{'h', "16"}, Width{'r', "32"}, Width{'d', "64"}}) {
    const std::string two = Repeat(w.letter, 2), three = Repeat(w.letter, 3);
    for (const char sign : {'u', 's'}) {
      const std::string type = std::string(".") + sign + w.bits;
      for (const char* op : {"add", "sub", "mul.lo", "mul.hi", "min", "max"}) {
        b.Add(op + type, three);
      }
      for (const char* op : {"mad.lo", "mad.hi", "sad"}) b.Add(op + type, three + w.letter);
      b.Add("div" + type, three, {}, true);
      b.Add("rem" + type, three, {}, true);
      b.Add("shr" + type, two + 'r');
      if (sign == 's') {
        b.Add("neg" + type, two);
        // NVIDIA's compiler assumes that abs.s16 is not negative, even for the smallest number.
        if (w.letter != 'h') b.Add("abs" + type, two);
      }
      if (w.letter == 'h') continue;
      b.Add("bfe" + type, two + "rr");
      b.Add("bfind" + type, std::string("r") + w.letter);
      b.Add("bfind.shiftamt" + type, std::string("r") + w.letter);
    }
    const std::string bits = std::string(".b") + w.bits;
    for (const char* op : {"and", "or", "xor"}) b.Add(op + bits, three);
    for (const char* op : {"not", "cnot", "mov"}) b.Add(op + bits, two);
    b.Add("shl" + bits, two + 'r');
    b.Add("selp" + bits, three + 'p');
    b.Add("slct" + bits + ".s32", three + 'r');
    if (w.letter == 'h') continue;
    b.Add("popc" + bits, std::string("r") + w.letter);
    b.Add("clz" + bits, std::string("r") + w.letter);
    b.Add("brev" + bits, two);
    b.Add("bfi" + bits, three + "rr");
  }
  for (const char sign : {'u', 's'}) {
    const std::string s(1, sign);
    b.Add("mul.wide." + s + "16", "rhh");
    b.Add("mad.wide." + s + "16", "rhhr");
    b.Add("mul.wide." + s + "32", "drr");
    b.Add("mad.wide." + s + "32", "drrd");
    for (const char* other : {"u32", "s32"}) b.Add("dp4a." + s + "32." + other, "rrrr");
  }
  for (const char* op :
       {"prmt.b32", "shf.l.wrap.b32", "shf.r.wrap.b32", "shf.l.clamp.b32", "shf.r.clamp.b32"}) {
    b.Add(op, "rrrr");
  }
  b.Add("bmsk.clamp.b32", "rrr");
  b.Add("bmsk.wrap.b32", "rrr");
  b.Add("lop3.b32", "rrrr", ", 0x96");
  b.Add("lop3.b32", "rrrr", ", 0xca");
  for (const char* op : {"and.pred", "or.pred", "xor.pred"}) b.Add(op, "ppp");
  b.Add("not.pred", "pp");
}

void AddFloats(Builder& b) {
  for (const std::string type : {"f32", "f64"}) {
    const char c = type == "f32" ? 'f' : 'e';
    for (const std::string flush : {"", ".ftz"}) {
      if (c == 'e' && !flush.empty()) continue;
      const std::string tail = flush + "." + type;
      for (const char* rounding : {".rn", ".rz", ".rm", ".rp"}) {
        for (const char* op : {"add", "sub", "mul", "div"})
          b.Add(op + (rounding + tail), Repeat(c, 3));
        b.Add("fma" + (rounding + tail), Repeat(c, 4));
        b.Add("rcp" + (rounding + tail), Repeat(c, 2));
        b.Add("sqrt" + (rounding + tail), Repeat(c, 2));
        if (c == 'f') b.Add("fma" + std::string(rounding) + flush + ".sat.f32", "ffff");
      }
      for (const char* op : {"add", "sub", "mul", "min", "max"}) b.Add(op + tail, Repeat(c, 3));
      b.Add("neg" + tail, Repeat(c, 2));
      b.Add("abs" + tail, Repeat(c, 2));
      if (c == 'e') continue;
      b.Add("min" + flush + ".NaN.f32", "fff");
      b.Add("max" + flush + ".NaN.f32", "fff");
      b.Add("add" + flush + ".sat.f32", "fff");
      b.Add("mul" + flush + ".sat.f32", "fff");
    }
    b.Add("selp." + type, Repeat(c, 3) + 'p');
    b.Add("mov." + type, Repeat(c, 2));
  }
  struct Half {
    const char* type;
    char letter;
  };
  for (const Half& h :
       {Half{"f16", 'x'}, Half{"f16x2", 'y'}, Half{"bf16", 'z'}, Half{"bf16x2", 'w'}}) {
    const std::string tail = std::string(".") + h.type;
    for (const char* op : {"add", "sub", "mul", "min", "max", "min.NaN", "max.NaN"}) {
      b.Add(op + tail, Repeat(h.letter, 3));
    }
    b.Add("fma.rn" + tail, Repeat(h.letter, 4));
    b.Add("fma.rn.relu" + tail, Repeat(h.letter, 4));
    b.Add("neg" + tail, Repeat(h.letter, 2));
    b.Add("abs" + tail, Repeat(h.letter, 2));
  }
}

/// Whether type `to` contains every value of type `from`. Then ".sat" is an error.
bool Contains(const std::string& to, const std::string& from) {
  const int to_bits = std::stoi(to.substr(1)), from_bits = std::stoi(from.substr(1));
  if (from[0] == to[0]) return to_bits >= from_bits;
  return from[0] == 'u' && to_bits > from_bits;
}

void AddConversions(Builder& b) {
  struct Named {
    const char* type;
    char letter;
  };
  const Named integers[] = {{"u8", 'h'},  {"s8", 'h'},  {"u16", 'h'}, {"s16", 'h'},
                            {"u32", 'r'}, {"s32", 'r'}, {"u64", 'd'}, {"s64", 'd'}};
  const Named floats[] = {{"f32", 'f'}, {"f64", 'e'}, {"f16", 'x'}};
  auto add = [&](const std::string& modifiers, const Named& to, const Named& from) {
    b.Add("cvt" + modifiers + "." + to.type + "." + from.type, {to.letter, from.letter});
  };
  for (const Named& to : integers) {
    for (const Named& from : integers) {
      add("", to, from);
      if (!Contains(to.type, from.type)) add(".sat", to, from);
    }
    for (const Named& from : floats) {
      for (const char* rounding : {".rni", ".rzi", ".rmi", ".rpi"}) add(rounding, to, from);
    }
    add(".rzi.ftz", to, floats[0]);
    for (const Named& into : floats) add(".rn", into, to);
    for (const char* rounding : {".rz", ".rm", ".rp"}) {
      add(rounding, floats[0], to);
      add(rounding, floats[1], to);
    }
  }
  for (const char* one :
       {"cvt.f64.f32 ef",       "cvt.ftz.f64.f32 ef",         "cvt.rn.f32.f64 fe",
        "cvt.rz.f32.f64 fe",    "cvt.rm.f32.f64 fe",          "cvt.rp.ftz.f32.f64 fe",
        "cvt.f32.f16 fx",       "cvt.rn.f16.f32 xf",          "cvt.rz.f16.f32 xf",
        "cvt.f32.bf16 fz",      "cvt.rn.bf16.f32 zf",         "cvt.rz.bf16.f32 zf",
        "cvt.rn.f16x2.f32 yff", "cvt.rn.relu.bf16x2.f32 wff", "cvt.rn.f16.f64 xe",
        "cvt.f64.f16 ex",       "cvt.rni.f32.f32 ff",         "cvt.rpi.f64.f64 ee",
        "cvt.rzi.f16.f16 xx",   "cvt.sat.f32.f32 ff",         "cvt.bf16.f16 zx"}) {
    const std::string text = one;
    const size_t space = text.find(' ');
    b.Add(text.substr(0, space), text.substr(space + 1));
  }
}

void AddCompares(Builder& b) {
  struct Named {
    const char* type;
    char letter;
    bool is_float;
  };
  const Named types[] = {{"u16", 'h', false}, {"s16", 'h', false},    {"u32", 'r', false},
                         {"s32", 'r', false}, {"u64", 'd', false},    {"s64", 'd', false},
                         {"f32", 'f', true},  {"ftz.f32", 'f', true}, {"f64", 'e', true},
                         {"f16", 'x', true},  {"bf16", 'z', true}};
  for (const Named& type : types) {
    const std::string classes{'p', type.letter, type.letter};
    for (const char* relation : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu",
                                 "gtu", "geu", "num", "nan"}) {
      if (!type.is_float && relation[2] != 0) continue;
      b.Add(std::string("setp.") + relation + "." + type.type, classes);
    }
    b.Add(std::string("setp.lt.and.") + type.type, classes + 'p');
    b.Add(std::string("setp.ge.xor.") + type.type, classes + 'p');
    if (std::string(type.type) == "f16" || std::string(type.type) == "bf16") continue;
    b.Add(std::string("set.lt.u32.") +
              (type.type[0] == 'f' && type.type[1] == 't' ? "f32" : type.type),
          std::string("r") + type.letter + type.letter);
  }
  for (const char* test : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    b.Add(std::string("testp.") + test + ".f32", "pf");
    b.Add(std::string("testp.") + test + ".f64", "pe");
  }
}

}  // namespace

const std::vector<RegisterClass>& RegisterClasses() {
  static const std::vector<RegisterClass> classes = {
      {'h', 16, 3, nullptr}, {'r', 32, 6, nullptr}, {'d', 64, 4, nullptr}, {'f', 32, 5, &kF32},
      {'e', 64, 3, &kF64},   {'x', 16, 3, &kF16},   {'y', 32, 2, &kF16},   {'z', 16, 2, &kBF16},
      {'w', 32, 2, &kBF16},  {'p', 1, 3, nullptr}};
  return classes;
}

const RegisterClass& ClassOf(char letter) {
  for (const RegisterClass& c : RegisterClasses()) {
    if (c.letter == letter) return c;
  }
  std::abort();
}

const std::vector<Template>& Templates() {
  static const std::vector<Template> all = [] {
    Builder builder;
    AddIntegers(builder);
    AddFloats(builder);
    AddConversions(builder);
    AddCompares(builder);
    return builder.Take();
  }();
  return all;
}

}  // namespace cupel::reference
