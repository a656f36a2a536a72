// A record's field list: one description of its members, from which it is written as JSON
// (write.h), read and checked (read.h), and documented (document.h).
//
//   template <> struct Fields<ShadowCause> {
//     template <typename Visitor, typename Record>
//     static void Visit(Visitor& visit, Record& cause) {
//       visit("what", cause.what, "place in the program: `add.s32 at kernel.cu:12`");
//       visit("elements", cause.elements, "how many depend on it");
//     }
//   };
//
// The order of the calls is the order in the file. A visitor has these functions; `meaning` is
// Markdown for docs/formats.
//
//   visit(name, member, meaning)              always written, required when read
//   visit.Since(name, member, meaning)        always written, but records of earlier versions lack
//                                             it
//   visit.If(condition, name, member, meaning)  written if `condition`; may be missing
//   visit.Later(name, member, meaning)        added to the finished record, such as a digest of it;
//                                             may be missing when read
//   visit.As(name, member, value, meaning)    writes value(), reads into `member`
//   visit.Derived(name, value, type, meaning) writes value(), which follows from other members;
//                                             ignored when read. `type` is for the document
//   visit.Group(name, meaning, fields, is_required = true)
//                                             an object whose members `fields(visit)` visits
//   visit.ById(name, list, id, member, meaning)  an object: id of each list item to its member.
//                                             Reading needs the list, so visit that first
//
// Fields may also have `static const char* Problem(const Record&)`: why the values of a record that
// was read are impossible; null if they are not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace cupel::records {

template <typename T>
struct Fields;

template <typename T>
concept HasFields = requires { sizeof(Fields<T>); };

/// Specialise for an enumeration whose values are texts in JSON:
///   static constexpr std::pair<Severity, std::string_view> kAll[] = {{Severity::kError, "error"}};
template <typename T>
struct Names;

template <typename T>
concept HasNames = requires { Names<T>::kAll; };

template <HasNames T>
constexpr std::string_view NameOf(T value) {
  for (const auto& [known, name] : Names<T>::kAll) {
    if (known == value) return name;
  }
  return "";
}

/// A member that is written as decimal text, because many JSON readers keep only 53 bits.
template <typename T>
struct Decimal {
  T& value;
};
template <typename T>
Decimal(T&) -> Decimal<T>;

/// A number that is written as null if it is not finite. Other numbers become "nan", "inf" or
/// "-inf".
template <typename T>
struct OrNull {
  T& value;
};
template <typename T>
OrNull(T&) -> OrNull<T>;

}  // namespace cupel::records
