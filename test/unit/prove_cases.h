// Members made by hand from IR text, and pairs of members that must be refused.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus::test {

/// A member whose graphs are parsed from text. Inputs of the graph: those of `inputs`, then one per
/// slot.
struct Net {
  std::string train;
  std::string eval;  ///< empty: as train
  std::vector<InputSpec> inputs{{at::kFloat, {std::nullopt, 4}, std::nullopt}};
  std::vector<TensorSlot> slots;
  std::vector<size_t> updates;
  OutputTree output;
};

/// Equal values for equal names and sizes.
TensorSlot slot(const std::string& name, std::vector<int64_t> sizes, Role role = Role::Parameter);
Member memberOf(const Net& net, const std::string& name);

/// conv, batch norm (train mode: functional, with two updates), add of two branches, relu, dropout,
/// softmax, a constant.
Net network();
std::string replaced(std::string text, const std::string& what, const std::string& by);

/// A change of `network()` that changes what it computes.
struct Case {
  std::string name;
  Net changed;
  std::string text;       ///< of the message when this one is odd
  std::string condition;  ///< "C4"
};
std::vector<Case> refusedCases();
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// A change of `network()` that is carried: a number or a constant of each member's own.
struct Carried {
  std::string name;
  Net changed;
  size_t attributes, constants;  ///< that the certificate lists
};
std::vector<Carried> carriedCases();
inline void PrintTo(const Carried& c, std::ostream* out) { *out << c.name; }

}  // namespace chorus::test
