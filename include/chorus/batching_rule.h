// The one idea of chorus.
//
// K *members* are trained as one graph. A value of that graph is *stacked* (it has the member
// dimension: size K, always dim 0) or *shared* (one copy serves all members). Each op has a
// *batching rule*: given stacked and shared operands of the K-fold op, it says which ordinary ops
// compute it.
//
//     A rule is right if and only if slice k of the fused result is what member k alone computes.
//
// Example: linear with x [N,I] shared, weight [K,O,I] and bias [K,O] stacked. Member k computes x
// W_k^T + b_k:
//
//     baddbmm(b[K,1,O], x.expand[K,N,I], W^T[K,I,O])  ->  [K,N,O], stacked
//
// Terms: *member rank* is the rank a value has in the member's own graph; a stacked value has one
// dim more. Axis arguments are wrapped against the member rank; non-negative ones then shift by
// one. Words used nowhere here: "batch" for members (N is the batch).
//
// Families (lib/batching/families.h) make most rules one row of a table: elementwise, broadcasting,
// reduction, contraction, grouped (fold K into channels), fold-into-N, view, dim-shift, gather,
// random, factory, decompose. An op without a rule, or a form that its rule declines, runs once per
// member in a loop over K (correct, and visible in the plan).
//
// Rules emit stacked values K first. Rules that want the channel-merged layout [N,(K C),...] go
// through chorus::merge / chorus::unmerge marker nodes; passes/layout.cpp removes the pairs that
// cancel.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// A value of the fused graph. `value` may be null for an absent optional (None).
struct Operand {
  Value* value = nullptr;
  bool stacked = false;
};

class RuleContext;

/// One operand per output of the node, or nullopt: this form has no rule, run it per member.
using RuleResult = std::optional<std::vector<Operand>>;
using BatchingRule = std::function<RuleResult(RuleContext&)>;

struct RuleRow {
  std::string op;  ///< "aten::relu"; all overloads of it
  BatchingRule rule;
  std::string family;
};
/// What a file of lib/batching/rules/ defines: one function, named like the file, that returns its
/// rows.
using RuleRows = std::vector<RuleRow>;

/// nullptr where the op has none.
const RuleRow* findRule(const std::string& op);
const std::vector<RuleRow>& allRules();

/// What a rule sees of its node, and how it emits.
///
/// Rules of family "random" are also called where nothing is stacked: each member must have its own
/// draw, so they take their operand through stacked().
class RuleContext {
 public:
  /// What the walk knows about the fused graph so far.
  struct Environment {
    std::function<Operand(const Value*)>
        operand;  ///< member value -> fused operand (lists are built)
    /// Operands of a tensor list of the member; nullopt where its length is not known.
    std::function<std::optional<std::vector<Operand>>(const Value*)> elements;
    std::function<Value*()> member_count;  ///< int value: K
    std::function<std::optional<int64_t>(const Value*)>
        rank;  ///< member rank of a fused value, where it is known
  };
  RuleContext(Graph& fused, const Node* node, Environment environment);

  // The member's node.
  const Node* node() const { return node_; }
  std::string op() const;  ///< e.g. "aten::softmax"
  size_t size() const { return node_->inputs().size(); }
  size_t indexOf(const std::string& argument) const;  ///< by schema name; internal error if unknown
  bool has(const std::string& argument) const;        ///< the schema has it
  bool isNone(size_t i) const;
  bool isTensor(size_t i) const;      ///< a tensor (not None, not a list)
  bool isTensorList(size_t i) const;  ///< Tensor[] or Tensor?[]
  /// Constant non-tensor argument; nullopt if it is computed. None is an IValue too.
  std::optional<c10::IValue> constant(size_t i) const;
  std::optional<int64_t> constantInt(size_t i) const;
  std::optional<std::vector<int64_t>> constantInts(size_t i) const;  ///< an int is a list of one
  /// Rank that input i / output i has in the member. Internal error naming the node if unknown.
  int64_t rank(size_t i) const;
  int64_t outputRank(size_t i = 0) const;
  std::optional<at::ScalarType> dtype(size_t i) const;
  std::optional<at::ScalarType> outputDtype(size_t i = 0) const;
  /// Member sizes of input i; nullopt for dims that follow the batch size.
  std::vector<std::optional<int64_t>> sizes(size_t i) const;

  // Operands in the fused graph.
  Operand operand(size_t i) const;
  /// Of a Tensor[] or Tensor?[] argument. Refused (unsupported) where the member's graph does not
  /// tell how many there are: ask knowsElements() first.
  std::vector<Operand> elements(size_t i) const;
  bool knowsElements(size_t i) const;
  /// Dtype of element j of list argument i in the member, where it is known.
  std::optional<at::ScalarType> elementDtype(size_t i, size_t j) const;
  /// Member rank of a fused value that the walk has seen; nullopt for one that this rule made.
  std::optional<int64_t> memberRank(Operand operand) const;
  bool anyStacked() const;  ///< looks into lists too
  /// The fused value of each input, in order: what emitSame takes where nothing has to change.
  std::vector<Value*> inputs() const;
  /// Stacked, and as if of member rank `rank`: size-1 dims go in behind K.  [K,C] -> [K,1,1,C]
  Value* stackedAtRank(size_t i, int64_t rank);
  /// The same for a value of member rank `from`, stacked already.
  Value* raiseRank(Value* stacked, int64_t from, int64_t rank);
  /// Stacked: a shared operand is expanded (a view, no copy).  [N,C] -> [K,N,C]
  Value* stacked(size_t i);
  Value* stackedOf(Operand operand);
  /// int[]: the member's sizes of input i, whether it is stacked or not.
  Value* memberSizes(size_t i);
  /// int[]: K in front of the int[] argument i.  [-1,C] -> [K,-1,C]
  Value* countInFront(size_t i);

  // Emitting into the fused graph.
  Graph& graph() { return fused_; }
  Value* memberCount();  ///< int value K
  Value* constantOf(const c10::IValue& value);
  /// One op with schema matching and defaults; the only output. Keyword-only arguments go by name
  /// in `keywords`.
  Value* emit(const std::string& op, std::vector<torch::jit::NamedValue> arguments,
              std::vector<torch::jit::NamedValue> keywords = {});
  /// All outputs of an op with several.
  std::vector<Value*> emitAll(const std::string& op, std::vector<torch::jit::NamedValue> arguments,
                              std::vector<torch::jit::NamedValue> keywords = {});
  /// The node's own op on other operands: same op, other inputs in schema order. Types of outputs
  /// are copied with no shapes.
  std::vector<Value*> emitSame(std::vector<Value*> inputs);
  Value* intList(std::vector<Value*> ints);
  Value* tensorList(const std::vector<Value*>& tensors);

  /// [K,N,C,...] -> [N,(K C),...] and back (markers, lowered by passes/lower_layout.cpp).
  Value* merge(Value* k_first);
  Value* unmerge(Value* merged);

  /// What a rule returns for a form that it does not have; the reason goes into the plan.
  RuleResult decline(std::string reason);
  const std::string& reason() const { return reason_; }

 private:
  Graph& fused_;
  const Node* node_;
  Environment environment_;
  std::string reason_;
};

}  // namespace chorus
