// The checker's own reading of a canonical graph. It shares no code with the prover.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "chorus/checker.h"
#include "chorus/member.h"

namespace chorus::checker {

/// What is wrong; becomes the checker's answer.
struct Rejected : std::runtime_error {
  explicit Rejected(const std::string& why, std::optional<FaultPlace> where = {})
      : std::runtime_error(why), place(where) {}
  std::optional<FaultPlace> place;
};

/// Throws Rejected with the parts put together unless `holds`.
void require(bool holds, std::initializer_list<std::string> parts);

struct NodeFacts {
  const Node* node = nullptr;
  std::string text;  ///< op and overload; of a literal its key (certificate.h)
  /// Inputs; of a branch or loop also what its blocks take and give.
  std::vector<const Value*> operands;
  bool literal = false;
  bool live = false;
  bool commutative = false;
  bool floating = false;        ///< operand 0 is a floating tensor
  std::vector<char> varying{};  ///< operand by operand: a number that may differ between members
};

/// One graph: facts of its nodes in graph order, and where each value comes from.
struct Table {
  const CanonicalGraph* canonical = nullptr;
  std::vector<NodeFacts> nodes;
  std::unordered_map<const Node*, uint32_t> index_of;
  std::map<std::string, uint32_t> first_literal;  ///< key -> first node with it
  std::map<size_t, const Value*> update_of;       ///< slot -> new value

  bool isInput(const Value* value) const { return value->node() == canonical->graph->param_node(); }
  const NodeFacts& maker(const Value* value) const { return nodes[index_of.at(value->node())]; }
};

/// Throws Rejected where the graph does not fit the member.
Table tableOf(const Member& member, const CanonicalGraph& canonical);

/// The tensor hash as certificate.h defines it.
uint64_t mix(uint64_t hash, uint64_t word);
uint64_t hashOf(const at::Tensor& tensor);

}  // namespace chorus::checker
