// c10::complex: two numbers, for host and device. No tensor of the shim has complex elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>

#include "c10/util/Half.h"

namespace c10 {

template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T real_ = T(0);
  T imag_ = T(0);

  constexpr complex() = default;
  CUPEL_HOST_DEVICE constexpr complex(const T& real, const T& imag = T())
      : real_(real), imag_(imag) {}
  template <class U>
  CUPEL_HOST_DEVICE explicit constexpr complex(const complex<U>& other)
      : real_(static_cast<T>(other.real_)), imag_(static_cast<T>(other.imag_)) {}
  template <class U>
  explicit complex(const std::complex<U>& other)
      : complex(static_cast<T>(other.real()), static_cast<T>(other.imag())) {}
  explicit operator std::complex<T>() const { return {real_, imag_}; }
  CUPEL_HOST_DEVICE explicit constexpr operator bool() const { return real_ || imag_; }
  CUPEL_HOST_DEVICE constexpr T real() const { return real_; }
  CUPEL_HOST_DEVICE constexpr T imag() const { return imag_; }
  CUPEL_HOST_DEVICE constexpr void real(T value) { real_ = value; }
  CUPEL_HOST_DEVICE constexpr void imag(T value) { imag_ = value; }

  CUPEL_HOST_DEVICE constexpr complex& operator+=(const complex& o) {
    real_ += o.real_;
    imag_ += o.imag_;
    return *this;
  }
  CUPEL_HOST_DEVICE constexpr complex& operator-=(const complex& o) {
    real_ -= o.real_;
    imag_ -= o.imag_;
    return *this;
  }
  CUPEL_HOST_DEVICE constexpr complex& operator*=(const complex& o) {
    return *this = complex(real_ * o.real_ - imag_ * o.imag_, real_ * o.imag_ + imag_ * o.real_);
  }
  CUPEL_HOST_DEVICE constexpr complex& operator/=(const complex& o) {
    // Scaled, so that the square of a large divisor does not overflow.
    const T a = o.real_ < 0 ? -o.real_ : o.real_, b = o.imag_ < 0 ? -o.imag_ : o.imag_;
    const T scale = 1 / (a < b ? b : a), re = o.real_ * scale, im = o.imag_ * scale;
    const T by = scale / (re * re + im * im);
    return *this = complex((real_ * re + imag_ * im) * by, (imag_ * re - real_ * im) * by);
  }
  friend CUPEL_HOST_DEVICE constexpr complex operator+(complex a, const complex& b) {
    return a += b;
  }
  friend CUPEL_HOST_DEVICE constexpr complex operator-(complex a, const complex& b) {
    return a -= b;
  }
  friend CUPEL_HOST_DEVICE constexpr complex operator*(complex a, const complex& b) {
    return a *= b;
  }
  friend CUPEL_HOST_DEVICE constexpr complex operator/(complex a, const complex& b) {
    return a /= b;
  }
  friend CUPEL_HOST_DEVICE constexpr complex operator+(const complex& a) { return a; }
  friend CUPEL_HOST_DEVICE constexpr complex operator-(const complex& a) {
    return {-a.real_, -a.imag_};
  }
  friend CUPEL_HOST_DEVICE constexpr bool operator==(const complex& a, const complex& b) {
    return a.real_ == b.real_ && a.imag_ == b.imag_;
  }
  friend CUPEL_HOST_DEVICE constexpr bool operator!=(const complex& a, const complex& b) {
    return !(a == b);
  }
};

template <class T>
CUPEL_HOST_DEVICE complex<T> polar(const T& r, const T& theta = T()) {
  return {r * std::cos(theta), r * std::sin(theta)};
}

template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<complex<T>> : std::true_type {};
template <class T>
struct scalar_value_type {
  using type = T;
};
template <class T>
struct scalar_value_type<complex<T>> {
  using type = T;
};

}  // namespace c10

namespace std {
template <class T>
CUPEL_HOST_DEVICE constexpr T real(const c10::complex<T>& z) {
  return z.real();
}
template <class T>
CUPEL_HOST_DEVICE constexpr T imag(const c10::complex<T>& z) {
  return z.imag();
}
template <class T>
CUPEL_HOST_DEVICE constexpr T norm(const c10::complex<T>& z) {
  return z.real() * z.real() + z.imag() * z.imag();
}
template <class T>
CUPEL_HOST_DEVICE constexpr c10::complex<T> conj(const c10::complex<T>& z) {
  return {z.real(), -z.imag()};
}
template <class T>
CUPEL_HOST_DEVICE T abs(const c10::complex<T>& z) {
  return std::hypot(z.real(), z.imag());
}
template <class T>
CUPEL_HOST_DEVICE T arg(const c10::complex<T>& z) {
  return std::atan2(z.imag(), z.real());
}
template <class T>
CUPEL_HOST_DEVICE c10::complex<T> exp(const c10::complex<T>& z) {
  return c10::polar(std::exp(z.real()), z.imag());
}
template <class T>
CUPEL_HOST_DEVICE c10::complex<T> log(const c10::complex<T>& z) {
  return {std::log(std::abs(z)), std::arg(z)};
}
template <class T>
CUPEL_HOST_DEVICE c10::complex<T> sqrt(const c10::complex<T>& z) {
  return c10::polar(std::sqrt(std::abs(z)), std::arg(z) / 2);
}
}  // namespace std

namespace c10_complex_math {
using std::abs;
using std::exp;
using std::log;
using std::sqrt;
}  // namespace c10_complex_math
