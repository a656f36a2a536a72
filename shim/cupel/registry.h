// The functions that a candidate exports, and how they are called. PYBIND11_MODULE and
// TORCH_LIBRARY each put an entry into the linker section cupel_modules; no static constructor
// runs. The cupel_candidate_* symbols exist in the object only if there is an entry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/caster.h"

namespace cupel::shim {

struct Argument {
  Text name;
  bool convert = true;
  std::optional<Value> default_value;
};

/// "name(Tensor x, Tensor(a!)? y=None, float eps=1e-5) -> (Tensor, Tensor)".
struct Schema {
  struct Argument {
    Text type;  // without aliases: "Tensor?", "int[2]"
    Text name;
    std::optional<Value> default_value;
  };
  std::vector<Argument> arguments;
  std::vector<Text> results;  // types
};
Schema ParseSchema(const char* text);

struct Function;

/// One call in progress.
struct Frame {
  const CupelValue* args = nullptr;
  bool convert = true;
  int bad = -1;  // the first argument that does not fit
  CupelReturn ret = nullptr;
  void* context = nullptr;
};

struct Function {
  Text name;
  std::vector<Argument> args;  // as many as the C++ function has
  Text key;                    // of TORCH_LIBRARY's operators
  std::optional<Schema> schema;
  bool is_boxed = false;  // it has the arguments and results of its schema, as words
  void* callable = nullptr;
  bool (*invoke)(Function& self, Frame& frame) = nullptr;  // false: an argument did not fit
  void (*type_name)(Text& text, int arg) = nullptr;        // arg -1: the result
  Text Signature() const;
};

/// A function of `count` arguments that have no names yet. Never freed, like the registry.
Function* NewFunction(const char* name, size_t count);
/// Sets the name of argument `next`, if there is one, and increments `next`.
void NameArgument(Function& f, size_t& next, const char* name, bool convert,
                  const Value* default_value);

class Registry {
 public:
  static Registry& Get();  // runs the modules' initialisers on first use
  void Add(Function* function, size_t named);
  /// Adds one of TORCH_LIBRARY's operators. Get() takes its argument names from the schema of the
  /// same key: "namespace::name.overload".
  void AddOperator(Function* function, const char* key);
  void AddSchema(const char* key, const char* schema);
  /// The function that calls of "forward" and "backward" mean; empty: those of these names.
  void SetEntry(const char* name) { entry_ = name; }
  const std::vector<Function*>& functions() const { return functions_; }
  int Call(const char* name, const CupelValue* args, int count, CupelReturn ret, void* context,
           Text& message);

 private:
  bool Try(Function& f, const CupelValue* args, int count, Frame frame, Text& message);
  void Finish();
  std::vector<Function*> functions_;
  std::vector<Function*> operators_;
  std::vector<std::pair<Text, Text>> schemas_;
  const char* entry_ = "";
};

/// Sets names and defaults of `f`'s arguments from its schema. Refuses if `f` has other arguments
/// or results than its schema: PyTorch refuses to load it, or passes numbers of one type as
/// another.
void ApplySchema(Function& f);

struct ModuleEntry {
  void (*initialise)(Registry& registry);
  int (*abi)();
  void (*describe)(CupelDescribe, void*);
  int (*call)(const char*, const CupelValue*, int32_t, CupelReturn, void*, char*, int32_t);
};

// The signature of anything callable.
template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using Type = R(A...);
};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (*)(A...)> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};

template <class A>
using CasterFor = Caster<
    std::conditional_t<std::is_same_v<std::decay_t<A>, char*>, const char*, std::decay_t<A>>>;

template <class F, class S>
struct Invoker;
template <class F, class R, class... A>
struct Invoker<F, R(A...)> {
  template <size_t... I>
  static bool Run(Function& self, Frame& frame, std::index_sequence<I...>) {
    std::tuple<CasterFor<A>...> casters;
    bool fits = true;
    ((fits = fits &&
             (std::get<I>(casters).Load(frame.args[I], frame.convert && self.args[I].convert) ||
              (frame.bad = static_cast<int>(I), false))),
     ...);
    if (!fits) return false;
    F& f = *static_cast<F*>(self.callable);
    CupelValue out = {};
    if constexpr (std::is_void_v<R>) {
      f(static_cast<A&&>(std::get<I>(casters).value)...);
      frame.ret(frame.context, &out);
    } else {
      const std::decay_t<R>& result = f(static_cast<A&&>(std::get<I>(casters).value)...);
      Arena arena;
      CasterFor<R>::Give(arena, out, result);
      frame.ret(frame.context, &out);
    }
    return true;
  }
  static bool Invoke(Function& self, Frame& frame) {
    return Run(self, frame, std::index_sequence_for<A...>());
  }
  static void TypeName(Text& text, int arg) {
    int i = 0;
    ((i++ == arg ? CasterFor<A>::Name(text) : void()), ...);
    if (arg >= 0) return;
    if constexpr (std::is_void_v<R>) {
      text << "None";
    } else {
      CasterFor<R>::Name(text);
    }
  }
  static constexpr size_t kCount = sizeof...(A);
};

/// A Function around `f`. Its arguments have no names yet.
template <class F>
Function* MakeFunction(const char* name, F&& f) {
  using Plain = std::decay_t<F>;
  using In = Invoker<Plain, typename SignatureOf<Plain>::Type>;
  Function* function = NewFunction(name, In::kCount);
  function->callable = new Plain(std::forward<F>(f));
  function->invoke = In::Invoke;
  function->type_name = In::TypeName;
  return function;
}

#if CUPEL_BODIES
CUPEL_INLINE Function* NewFunction(const char* name, size_t count) {
  Function* function = new Function;
  function->name << name;
  function->args.resize(count);
  return function;
}
CUPEL_INLINE void NameArgument(Function& f, size_t& next, const char* name, bool convert,
                               const Value* default_value) {
  size_t i = next++;
  if (i >= f.args.size()) return;
  f.args[i].name = Text() << (name ? name : "");
  f.args[i].convert = convert;
  if (default_value) f.args[i].default_value = *default_value;
}
CUPEL_INLINE void Registry::Add(Function* function, size_t named) {
  if (named != 0 && named != function->args.size())
    Throw<c10::Error>(Text() << function->name << ": " << named
                             << " argument names for a function of " << function->args.size());
  functions_.push_back(function);
}
CUPEL_INLINE void Registry::AddOperator(Function* function, const char* key) {
  function->key << key;
  operators_.push_back(function);
}
CUPEL_INLINE void Registry::AddSchema(const char* key, const char* schema) {
  schemas_.push_back({Text() << key, Text() << schema});
}
CUPEL_INLINE Text Function::Signature() const {
  Text text;
  text << name << '(';
  for (size_t i = 0; i < args.size(); ++i) {
    if (i) text << ", ";
    text << args[i].name << ": ";
    type_name(text, static_cast<int>(i));
    if (!args[i].default_value) continue;
    const CupelValue& v = args[i].default_value->raw();
    text << " = ";
    if (v.kind == CUPEL_BOOL) {
      text << (v.i ? "True" : "False");
    } else if (v.kind == CUPEL_INT) {
      text << v.i;
    } else if (v.kind == CUPEL_DOUBLE) {
      text << v.d;
    } else {
      AppendKind(text, v);
    }
  }
  text << ") -> ";
  type_name(text, -1);
  return text;
}

// The linker sets the entries' first and last address. Weak, since there may be no entries.
extern "C" __attribute__((weak, visibility("hidden"))) ModuleEntry __start_cupel_modules[];
extern "C" __attribute__((weak, visibility("hidden"))) ModuleEntry __stop_cupel_modules[];

// Hidden: a default-visibility static would be one object across all candidates in a process.
__attribute__((visibility("hidden"))) CUPEL_INLINE Registry& Registry::Get() {
  static Registry* registry = nullptr;
  if (registry) return *registry;
  Registry* fresh = new Registry;  // never freed: a candidate may still be called at exit
  for (ModuleEntry* entry = __start_cupel_modules; entry != __stop_cupel_modules; ++entry)
    entry->initialise(*fresh);
  fresh->Finish();
  return *(registry = fresh);
}

CUPEL_INLINE void Registry::Finish() {
  for (Function* f : operators_) {
    for (const auto& [key, schema] : schemas_)
      if (std::strcmp(key.c_str(), f->key.c_str()) == 0) f->schema = ParseSchema(schema.c_str());
    if (f->schema) ApplySchema(*f);
    functions_.push_back(f);
  }
  for (Function* f : functions_)
    for (size_t i = 0; i < f->args.size(); ++i)
      if (f->args[i].name.empty()) f->args[i].name << "arg" << i;
}

CUPEL_INLINE std::optional<Value> SchemaDefault(const char* text, size_t length) {
  CupelValue raw = {};
  auto is = [&](const char* word) {
    return std::strlen(word) == length && std::memcmp(text, word, length) == 0;
  };
  char* end = nullptr;
  if (is("None")) return Value(raw);
  if (is("True") || is("False")) {
    raw.kind = CUPEL_BOOL;
    raw.i = text[0] == 'T';
    return Value(raw);
  }
  if (is("[]")) return Value(std::vector<Value>());
  raw.kind = CUPEL_INT;
  raw.i = std::strtoll(text, &end, 10);
  if (end == text + length) return Value(raw);
  raw.kind = CUPEL_DOUBLE;
  raw.d = std::strtod(text, &end);
  if (end == text + length) return Value(raw);
  return std::nullopt;
}

inline bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The end of an argument or a result: of the text until a comma or bracket that is not inside of
/// others, as in Tensor(a!) or int[2], or of a string.
CUPEL_INLINE const char* SchemaPart(const char* at) {
  int depth = 0;
  char quote = 0;
  for (; *at && (quote || depth || (*at != ',' && *at != ')')); ++at) {
    if (quote) {
      if (*at == quote) quote = 0;
    } else if (*at == '"' || *at == '\'') {
      quote = *at;
    } else {
      depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    }
  }
  return at;
}

/// A type without its alias: Tensor(a!)? is Tensor?, and so is Tensor!?.
CUPEL_INLINE Text SchemaType(const char* begin, const char* end) {
  Text type;
  bool is_alias = false;
  for (; begin < end; ++begin) {
    is_alias = is_alias || *begin == '(';
    if (!is_alias && *begin != '!' && !IsBlank(*begin)) type.Append(begin, 1);
    is_alias = is_alias && *begin != ')';
  }
  return type;
}

CUPEL_INLINE Schema ParseSchema(const char* text) {
  Schema schema;
  const char* at = std::strchr(text, '(');
  while (at && (*at == '(' || *at == ',')) {
    const char* begin = ++at;
    at = SchemaPart(at);
    const char* end = at;
    while (begin < end && IsBlank(*begin)) ++begin;
    while (end > begin && IsBlank(end[-1])) --end;
    if (begin == end || *begin == '*') continue;  // the mark of keyword-only arguments
    Schema::Argument argument;
    const char* equals = begin;
    while (equals < end && *equals != '=') ++equals;
    if (equals < end) {
      const char* value = equals + 1;
      while (IsBlank(*value)) ++value;
      argument.default_value = SchemaDefault(value, static_cast<size_t>(end - value));
    }
    const char* last = equals;
    while (last > begin && IsBlank(last[-1])) --last;
    const char* first = last;
    while (first > begin && !IsBlank(first[-1])) --first;
    if (first > begin) argument.name.Append(first, static_cast<size_t>(last - first));
    argument.type = SchemaType(begin, first > begin ? first : last);
    schema.arguments.push_back(std::move(argument));
  }
  const char* arrow = at ? std::strstr(at, "->") : nullptr;
  if (!arrow) return schema;
  at = arrow + 2;
  while (IsBlank(*at)) ++at;
  const bool are_several = *at == '(';
  do {
    const char* begin = are_several || *at == ',' ? ++at : at;
    at = SchemaPart(at);
    const char* end = at;
    while (begin < end && IsBlank(*begin)) ++begin;
    const char* word = begin;  // results may have names
    while (word < end && !IsBlank(*word)) ++word;
    Text type = SchemaType(begin, word);
    if (!type.empty()) schema.results.push_back(std::move(type));
  } while (are_several && *at == ',');
  return schema;
}

/// The type that a function of this schema has, as Function::type_name writes it; empty for types
/// that are not checked (ScalarType, Device, ...).
CUPEL_INLINE Text TypeOfSchema(const char* type, size_t length) {
  Text text;
  if (length == 0) return text;
  if (type[length - 1] == '?') {
    const Text inner = TypeOfSchema(type, length - 1);
    if (!inner.empty()) text << "Optional[" << inner << ']';
    return text;
  }
  if (type[length - 1] == ']') {
    size_t open = length - 1;
    while (open > 0 && type[open] != '[') --open;
    const Text inner = TypeOfSchema(type, open);
    if (!inner.empty()) text << "List[" << inner << ']';
    return text;
  }
  constexpr const char* kNames[][2] = {{"Tensor", "Tensor"},
                                       {"int", "int"},
                                       {"SymInt", "int"},
                                       {"float", "float"},
                                       {"bool", "bool"},
                                       {"str", "str"},
                                       {"Scalar", "Union[int, float, bool]"}};
  for (const auto& name : kNames)
    if (std::strlen(name[0]) == length && std::memcmp(name[0], type, length) == 0) text << name[1];
  return text;
}

CUPEL_INLINE size_t CountResults(const char* type) {
  if (std::strcmp(type, "None") == 0) return 0;
  if (std::strncmp(type, "Tuple[", 6) != 0) return 1;
  size_t count = 1;
  int depth = 0;
  for (const char* at = type; *at; ++at) {
    depth += (*at == '[') - (*at == ']');
    count += *at == ',' && depth == 1;
  }
  return count;
}

CUPEL_INLINE void ApplySchema(Function& f) {
  const Schema& schema = *f.schema;
  const size_t count = schema.arguments.size();
  if (f.is_boxed) f.args.resize(count);
  const auto check = [&](bool holds, const Text& what) {
    if (holds) return;
    Refuse("wrong_arguments",
           Text() << "the schema of " << f.name << " and its function differ: " << what);
  };
  check(f.args.size() == count,
        Text() << "the schema has " << count << " arguments, and the function " << f.args.size());
  for (size_t i = 0; i < count; ++i) {
    const Schema::Argument& argument = schema.arguments[i];
    f.args[i].name << argument.name;
    f.args[i].default_value = argument.default_value;
    if (f.is_boxed) continue;
    const Text wanted = TypeOfSchema(argument.type.c_str(), std::strlen(argument.type.c_str()));
    Text found;
    f.type_name(found, static_cast<int>(i));
    const bool fits = wanted.empty() ||
                      std::strncmp(wanted.c_str(), found.c_str(), std::strlen(wanted.c_str())) == 0;
    check(fits,
          Text() << argument.type << ' ' << argument.name << ", and the function takes " << found);
  }
  if (f.is_boxed) return;
  Text result;
  f.type_name(result, -1);
  check(CountResults(result.c_str()) == schema.results.size(),
        Text() << "the schema has " << schema.results.size()
               << " results, and the function returns " << result);
}

CUPEL_INLINE bool Registry::Try(Function& f, const CupelValue* args, int count, Frame frame,
                                Text& message) {
  int arity = static_cast<int>(f.args.size());
  std::vector<CupelValue> all(args, args + std::min(count, arity));
  for (int i = count; i < arity && f.args[static_cast<size_t>(i)].default_value; ++i)
    all.push_back(f.args[static_cast<size_t>(i)].default_value->raw());
  int have = static_cast<int>(all.size());
  if (count > arity) {
    message << f.name << " takes " << arity << " argument" << (arity == 1 ? "" : "s") << ", got "
            << count;
  } else if (have < arity) {
    message << "argument " << have + 1 << " (" << f.args[static_cast<size_t>(have)].name
            << ") is missing, got " << count << " argument" << (count == 1 ? "" : "s");
  } else {
    frame.args = all.data();
    if (f.invoke(f, frame)) return true;
    message << "argument " << frame.bad + 1 << " (" << f.args[static_cast<size_t>(frame.bad)].name
            << ") must be a";
    Text wanted;
    f.type_name(wanted, frame.bad);
    message << (std::strchr("aeiouO", wanted.c_str()[0]) ? "n " : " ") << wanted;
    message << ", got ";
    AppendKind(message, all[static_cast<size_t>(frame.bad)]);
  }
  message << "; " << f.Signature();
  return false;
}

CUPEL_INLINE int Registry::Call(const char* name, const CupelValue* args, int count,
                                CupelReturn ret, void* context, Text& message) {
  if (*entry_ && (std::strcmp(name, "forward") == 0 || std::strcmp(name, "backward") == 0))
    name = entry_;
  std::vector<Function*> overloads;
  for (Function* f : functions_)
    if (std::strcmp(f->name.c_str(), name) == 0) overloads.push_back(f);
  if (overloads.empty()) {
    message << "the module has no function " << name << (functions_.empty() ? "" : "; it has ");
    for (size_t i = 0; i < functions_.size(); ++i)
      message << (i ? ", " : "") << functions_[i]->name;
    return CUPEL_NO_FUNCTION;
  }
  Frame frame;
  frame.ret = ret;
  frame.context = context;
  // Overloads are tried in order, first without conversions, as pybind11 does.
  for (int pass = overloads.size() > 1 ? 0 : 1; pass < 2; ++pass) {
    message = Text();
    frame.convert = pass == 1;
    for (Function* f : overloads) {
      if (!message.empty()) message << "; or: ";
      if (Try(*f, args, count, frame, message)) {
        message = Text();
        return CUPEL_OK;
      }
    }
  }
  return CUPEL_BAD_ARGUMENTS;
}
#endif

}  // namespace cupel::shim

namespace cupel::shim {
void CandidateDescribe(CupelDescribe describe, void* context);
int CandidateCall(const char* function, const CupelValue* args, int count, CupelReturn ret,
                  void* context, char* message, int message_size);

#if CUPEL_BODIES
CUPEL_INLINE void CandidateDescribe(CupelDescribe describe, void* context) {
  try {
    for (const Function* f : Registry::Get().functions())
      describe(context, f->name.c_str(), f->Signature().c_str());
  } catch (...) {
    // A module whose initialiser throws has nothing to describe; a call reports the exception.
  }
}
CUPEL_INLINE int CandidateCall(const char* function, const CupelValue* args, int count,
                               CupelReturn ret, void* context, char* message, int message_size) {
  Text text;
  int status = CUPEL_EXCEPTION;
  try {
    status = Registry::Get().Call(function, args, count, ret, context, text);
  } catch (const std::exception& error) {
    text = Text() << error.what();
  } catch (...) {
    text = Text() << "the candidate threw something that is not a std::exception";
  }
  if (message && message_size > 0)
    std::snprintf(message, static_cast<size_t>(message_size), "%s", text.c_str());
  return status;
}
#endif
}  // namespace cupel::shim

// Inline, so that they are emitted only if a module's entry refers to them.
extern "C" inline int cupel_candidate_abi(void) { return CUPEL_ABI_VERSION; }
extern "C" inline void cupel_candidate_describe(CupelDescribe describe, void* context) {
  cupel::shim::CandidateDescribe(describe, context);
}
extern "C" inline int cupel_candidate_call(const char* function, const CupelValue* args,
                                           int32_t count, CupelReturn ret, void* context,
                                           char* message, int32_t message_size) {
  return cupel::shim::CandidateCall(function, args, count, ret, context, message, message_size);
}

// -DCUPEL_ENTRY=name names the function to judge in a module that has no "forward".
#ifdef CUPEL_ENTRY
#define CUPEL_SET_ENTRY(registry) registry.SetEntry(CUPEL_STRING(CUPEL_ENTRY));
#else
#define CUPEL_SET_ENTRY(registry)
#endif

#define CUPEL_JOIN_(a, b) a##b
#define CUPEL_JOIN(a, b) CUPEL_JOIN_(a, b)
// Adds the entry that runs `function` when the module is first used.
#if CUPEL_HOST_PASS
#define CUPEL_MODULE_ENTRY(id, function)                                                   \
  __attribute__((section("cupel_modules"), used)) static ::cupel::shim::ModuleEntry id = { \
      function, cupel_candidate_abi, cupel_candidate_describe, cupel_candidate_call};
#else
#define CUPEL_MODULE_ENTRY(id, function)
#endif
