// c10::Error and the checking macros. Messages are PyTorch's where it has a fixed text; the C++
// stack that PyTorch appends is left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "cupel/text.h"

namespace c10 {

class Error : public std::exception {
 public:
  explicit Error(cupel::shim::Text message) : message_(std::move(message)) {}
#ifndef CUPEL_LEAN_STRING
  explicit Error(const std::string& message) { message_.Append(message.data(), message.size()); }
  std::string msg() const { return message_.c_str(); }
#endif
  const char* what() const noexcept override { return message_.c_str(); }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }

 private:
  cupel::shim::Text message_;
};

class IndexError : public Error {
  using Error::Error;
};
class ValueError : public Error {
  using Error::Error;
};
class TypeError : public Error {
  using Error::Error;
};
class NotImplementedError : public Error {
  using Error::Error;
};

#ifdef CUPEL_LEAN_STRING
using CupelStdError = Error;
#else
/// What the stable ABI throws, which cannot know c10::Error.
class CupelStdError : public std::runtime_error {
 public:
  explicit CupelStdError(const cupel::shim::Text& message) : std::runtime_error(message.c_str()) {}
};
template <class... T>
std::string str(const T&... values) {
  return cupel::shim::Join(values...).c_str();
}
#endif

}  // namespace c10

namespace cupel::shim {

/// `cold` keeps the throwing branch out of the candidate's hot path and keeps the code small.
template <class E>
[[noreturn]] __attribute__((cold, noinline)) void Throw(Text message) {
  throw E(std::move(message));
}
template <class E, class... T>
[[noreturn]] __attribute__((cold, noinline)) void ThrowJoined(const char* default_text,
                                                              const T&... values) {
  if constexpr (sizeof...(values) == 0) {
    throw E(Text() << default_text);
  } else {
    throw E(Join(values...));
  }
}
template <class... T>
void Warn(const T&... values) {
  std::fprintf(stderr, "Warning: %s\n", Join(values...).c_str());
}

}  // namespace cupel::shim

// Needs no semicolon after it, as in PyTorch.
#define CUPEL_THROW_UNLESS(E, text, cond, ...)           \
  if (__builtin_expect(static_cast<bool>(!(cond)), 0)) { \
    ::cupel::shim::ThrowJoined<E>(text, ##__VA_ARGS__);  \
  }
#define CUPEL_EXPECTED_TRUE(cond)                                                              \
  "Expected " cond                                                                             \
  " to be true, but got false.  (Could this error message be improved?  If so, please report " \
  "an enhancement request to PyTorch.)"

#define TORCH_CHECK_WITH(error, cond, ...) \
  CUPEL_THROW_UNLESS(::c10::error, CUPEL_EXPECTED_TRUE(#cond), cond, ##__VA_ARGS__)
#define TORCH_CHECK(cond, ...) TORCH_CHECK_WITH(Error, cond, ##__VA_ARGS__)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b), #a " is not " #b)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK((a) != (b), #a " is " #b)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b), #a " is above " #b)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK((a) < (b), #a " is not below " #b)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK((a) >= (b), #a " is below " #b)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK((a) > (b), #a " is not above " #b)
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK_WITH(IndexError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK_WITH(ValueError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK_WITH(TypeError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) \
  TORCH_CHECK_WITH(NotImplementedError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_IF_NOT_ON_CUDA(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define STD_TORCH_CHECK(cond, ...) TORCH_CHECK_WITH(CupelStdError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_ARG(cond, argN, ...) \
  TORCH_CHECK(cond, "invalid argument ", argN, ": ", ##__VA_ARGS__)

#define CUPEL_STRING_(x) #x
#define CUPEL_STRING(x) CUPEL_STRING_(x)
#define TORCH_INTERNAL_ASSERT(cond, ...)                                               \
  TORCH_CHECK(cond,                                                                    \
              #cond " INTERNAL ASSERT FAILED at \"" __FILE__                           \
                    "\":" CUPEL_STRING(__LINE__) ", please report a bug to PyTorch. ", \
              ##__VA_ARGS__)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#endif
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_CHECK(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) ::cupel::shim::ThrowJoined<::c10::Error>("", ##__VA_ARGS__)
#define C10_THROW_ERROR(error, message) throw ::c10::error(::cupel::shim::Join(message))

#define TORCH_WARN(...) ::cupel::shim::Warn(__VA_ARGS__)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)          \
  do {                                \
    static bool cupel_warned = false; \
    if (!cupel_warned) {              \
      cupel_warned = true;            \
      TORCH_WARN(__VA_ARGS__);        \
    }                                 \
  } while (false)
