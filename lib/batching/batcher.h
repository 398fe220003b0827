// One walk over a member's graph. Its parts:
//   batch_graph.cpp     inputs, outputs, ops and their rules, lists
//   blocks.cpp          branches and loops that all members take together
//   choices.cpp         what only some members have
//   member_regions.cpp  what runs once per member
#pragma once

#include <set>

#include "chorus/batch_graph.h"
#include "chorus/batching_rule.h"
#include "lib/batching/per_member.h"
#include "lib/batching/regions.h"

namespace chorus {

/// One walk over a member's graph.
class Batcher {
 public:
  Batcher(const Graph& graph, const std::vector<bool>& stacked_inputs,
          const std::set<std::string>& disabled, const std::vector<size_t>& variants)
      : graph_(graph), disabled_(disabled), variants_(variants), fused_(std::make_shared<Graph>()) {
    addInputs(stacked_inputs);
    dependence_ = dependenceOf(graph, stacked_inputs);
  }

  BatchedGraph run(bool stack_outputs);

 private:
  void addInputs(const std::vector<bool>& stacked_inputs);
  void addOutputs(bool stack_outputs);
  void visitBlock(const torch::jit::Block& block);
  void visit(const Node* node);
  void visitOp(const Node* node);
  bool visitStructure(const Node* node);
  bool visitItem(const Node* node);
  void unpack(const Node* node);

  RuleContext contextOf(const Node* node);
  void copyShared(const Node* node);
  /// False with a reason where the node has to run per member.
  bool applyRule(const Node* node, RuleContext& context, const RuleRow* row, std::string& reason);
  // blocks.cpp
  void visitIf(const Node* node);
  void visitLoop(const Node* node);
  bool tryLoop(const Node* node, std::vector<bool>& stacked);
  Value* asResult(const Node* node, const Operand& operand, bool stacked);

  // choices.cpp
  void visitChoice(const Node* node);

  // member_regions.cpp
  void perMember(const Region& region);
  MemberInput memberInput(const Node* node, const Value* value);
  void refuseRagged(const Value* value) const;

  void copyProvenance(const Node* node, Node* before);

  Operand operandOf(const Value* value);
  std::optional<std::vector<Operand>> elementsOf(const Value* list);
  Value* memberCount();
  void bind(const Value* value, Operand operand);
  void decide(const Node* node, Decision::Kind kind, const std::string& family,
              const std::string& reason);
  Value* stackedOf(const Node* node, Operand operand);
  bool isDisabled(const Node* node, const RuleRow& row) const;
  void checkTypes(const Node* node) const;

  const Graph& graph_;
  Dependence dependence_;
  const std::set<std::string>& disabled_;
  const std::vector<size_t>& variants_;
  std::shared_ptr<Graph> fused_;
  BatchedGraph result_;
  std::unordered_map<const Value*, Operand> values_;              // member value -> fused operand
  std::unordered_map<const Value*, std::vector<Operand>> lists_;  // member list -> its operands
  std::unordered_map<const Value*, int64_t> ranks_;               // fused value -> member rank
  Value* first_stacked_ = nullptr;
  Value* member_count_ = nullptr;
};

}  // namespace chorus
