// What the rewritings of lib/batching/varying*.cpp emit with.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/batching/varying.h"

namespace chorus {

class VaryingEmitter {
 public:
  VaryingEmitter(Node* node, const std::map<size_t, Value*>& numbers, VaryingOptions options);

  const Node* node() const { return node_; }
  const VaryingOptions& options() const { return options_; }
  size_t indexOf(const std::string& argument) const;
  bool has(const std::string& argument) const;
  bool varies(const std::string& argument) const;
  bool isFlag(const std::string& argument, bool value) const;  ///< a constant bool
  bool isText(const std::string& argument, const std::string& text) const;
  bool isNone(const std::string& argument) const;
  std::string overload() const;

  std::vector<Value*> inputs() const { return node_->inputs().vec(); }
  /// Operand i as it is.
  Value* input(size_t i) const { return node_->input(i); }
  Value* input(const std::string& argument) const { return input(indexOf(argument)); }
  /// Operand i in the dtype in which the op computes.
  Value* wide(size_t i);
  /// The number as a 0-d tensor of `like`'s dtype where it varies, else the literal.
  Value* number(const std::string& argument, Value* like);
  /// As a 0-d tensor in any case: a literal takes its device and dtype from `like`'s number.
  Value* numberTensor(const std::string& argument, Value* like);
  /// The varying number itself: 0-d, f64 or i64.
  Value* raw(const std::string& argument) const;

  /// One op; its result has the sizes of `like` and the dtype `dtype` (that of `like` if none).
  Value* emit(const std::string& op, const std::vector<torch::jit::NamedValue>& arguments,
              Value* like, std::optional<at::ScalarType> dtype = {},
              const std::vector<torch::jit::NamedValue>& keywords = {});
  /// An op that this library does not know, one result.
  Value* emitForeign(const std::string& op, const std::vector<Value*>& inputs, Value* like);
  /// A number of each member's own, read back from its tensor by aten::Float or aten::Int.
  Node* readNumber(c10::Symbol op, Value* number);
  /// The node's own op with other operands.
  Node* again(const std::vector<Value*>& inputs);
  Value* literal(const c10::IValue& value);
  /// Sizes and dtype of the node's result.
  Value* result() const { return node_->output(0); }
  /// `value` in the dtype of the node's result.
  Value* narrow(Value* value);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  Node* node_;
  Graph& graph_;
  const std::map<size_t, Value*>& numbers_;
  VaryingOptions options_;
};

/// Returns one value per output of the node.
using VaryingForm = std::function<std::vector<Value*>(VaryingEmitter&)>;
using VaryingForms = std::map<std::string, VaryingForm>;

VaryingForms varyingActivations();
VaryingForms varyingArithmetic();
VaryingForms varyingNorms();
VaryingForms varyingRandom();

}  // namespace chorus
