#include "lib/batching/families.h"

#include <ATen/native/TypeProperties.h>

#include "lib/batching/dims.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using c10::IValue;

std::vector<size_t> tensorArguments(const RuleContext& context) {
  std::vector<size_t> found;
  for (size_t i = 0; i < context.size(); ++i) {
    if (context.isTensor(i)) found.push_back(i);
  }
  return found;
}

/// A number argument as type promotion sees it; nullopt if the argument is none.
std::optional<at::Scalar> numberArgument(const RuleContext& context, size_t i) {
  const auto type = context.node()->inputs()[i]->type()->kind();
  if (type == c10::TypeKind::IntType) return at::Scalar(1);
  if (type == c10::TypeKind::FloatType) return at::Scalar(1.0);
  if (type == c10::TypeKind::BoolType) return at::Scalar(true);
  if (type == c10::TypeKind::ComplexType) return at::Scalar(c10::complex<double>(1));
  return std::nullopt;
}

/// The dtype in which the member computes; nullopt where an operand's dtype is not known.
std::optional<at::ScalarType> memberPromotion(const RuleContext& context,
                                              const std::vector<size_t>& promoting) {
  at::native::ResultTypeState state;
  for (const size_t i : promoting) {
    if (const auto number = numberArgument(context, i)) {
      state = at::native::update_result_type_state(*number, state);
      continue;
    }
    if (!context.isTensor(i)) continue;
    const auto dtype = context.dtype(i);
    if (!dtype) return std::nullopt;
    const bool scalar = context.rank(i) == 0;
    const at::Tensor like =
        at::empty(scalar ? std::vector<int64_t>{} : std::vector<int64_t>{0}, *dtype);
    state = at::native::update_result_type_state(like, state);
  }
  return at::native::result_type(state);
}

}  // namespace

RuleResult elementwise(RuleContext& context) {
  return stackedResults(context.emitSame(context.inputs()));
}

int64_t largestRank(const RuleContext& context, const std::vector<size_t>& tensors) {
  int64_t rank = 0;
  for (const size_t i : tensors) {
    if (context.isTensor(i)) rank = std::max(rank, context.rank(i));
  }
  return rank;
}

std::optional<std::vector<Value*>> alignedInputs(RuleContext& context,
                                                 const std::vector<size_t>& tensors,
                                                 const std::vector<size_t>& promoting) {
  const int64_t rank = largestRank(context, tensors);
  std::vector<Value*> inputs = context.inputs();
  for (const size_t i : tensors) {
    if (!context.isTensor(i) || !context.operand(i).stacked) continue;
    const bool misaligned = fault("broadcast_misaligned");
    // [K,C] -> [K,1,C]
    if (!misaligned) inputs[i] = context.stackedAtRank(i, rank);
    const bool promotes = std::ranges::find(promoting, i) != promoting.end();
    if (!promotes || context.rank(i) > 0 || promoting.size() < 2) continue;
    const auto dtype = memberPromotion(context, promoting);
    if (!dtype) return std::nullopt;
    if (context.dtype(i) != dtype && !fault("scalar_promotes")) {
      inputs[i] = context.emit("aten::to", {inputs[i], static_cast<int64_t>(*dtype)});
    }
  }
  return inputs;
}

RuleResult broadcasting(RuleContext& context) {
  const std::vector<size_t> tensors = tensorArguments(context);
  // Numbers promote too where they are operands: in `pow(2, x)` and `x + 2`, not in `add(x, y,
  // alpha=2)`.
  std::vector<size_t> promoting = tensors;
  for (size_t i = 0; i < 2 && i < context.size(); ++i) {
    if (numberArgument(context, i)) promoting.push_back(i);
  }
  const auto inputs = alignedInputs(context, tensors, promoting);
  if (!inputs) return context.decline("an operand's dtype is not known");
  return stackedResults(context.emitSame(*inputs));
}

Value* withDim(RuleContext& context, size_t i) {
  Value* x = context.stacked(i);
  return context.rank(i) == 0 ? context.emit("aten::unsqueeze", {x, 1}) : x;
}

Value* withDims(RuleContext& context, Value* x, int64_t own, int64_t rank) {
  if (own == 0 && rank > 0) x = context.emit("aten::unsqueeze", {x, 1});  // [K] -> [K,1]
  if (own <= 1 && rank > 1) x = context.emit("aten::unsqueeze", {x, 1});  // [K,C] -> [K,1,C]
  if (own <= 2 && rank > 2) x = context.emit("aten::unsqueeze", {x, -1});
  return x;
}

RuleResult restoreRanks(RuleContext& context, const std::vector<Value*>& results) {
  std::vector<Value*> restored;
  for (size_t i = 0; i < results.size(); ++i) {
    // [K,1] or [K] -> [K]
    const bool scalar = context.outputRank(i) == 0;
    restored.push_back(scalar ? context.emit("aten::flatten", {results[i], 0, -1}) : results[i]);
  }
  return stackedResults(restored);
}

BatchingRule dimShift(std::vector<std::string> axes, int64_t extra_rank) {
  return [axes, extra_rank](RuleContext& context) -> RuleResult {
    const int64_t rank = context.rank(0) + extra_rank;
    std::vector<Value*> inputs = context.inputs();
    for (const std::string& axis : axes) {
      if (!context.has(axis)) continue;
      const size_t i = context.indexOf(axis);
      const auto known = context.constant(i);
      if (!known) return context.decline("computed " + axis);
      if (known->isInt()) {
        inputs[i] = context.constantOf(shiftDim(known->toInt(), rank));
      } else if (known->isIntList()) {
        inputs[i] = context.constantOf(shiftDims(known->toIntVector(), rank));
      } else {
        return context.decline("no " + axis);
      }
    }
    if (rank > 0) return stackedResults(context.emitSame(inputs));
    for (size_t i = 0; i < context.node()->outputs().size(); ++i) {
      if (context.outputRank(i) > 0) return context.decline("a tensor without dims");
    }
    inputs[0] = withDim(context, 0);
    return restoreRanks(context, context.emitSame(inputs));
  };
}

std::optional<std::vector<Value*>> withoutMemoryFormat(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  if (!context.has("memory_format")) return inputs;
  const size_t i = context.indexOf("memory_format");
  const auto format = context.constant(i);
  if (!format) return std::nullopt;
  const auto preserve = static_cast<int64_t>(c10::MemoryFormat::Preserve);
  const auto contiguous = static_cast<int64_t>(c10::MemoryFormat::Contiguous);
  if (format->isInt() && format->toInt() != preserve) inputs[i] = context.constantOf(contiguous);
  return inputs;
}

RuleResult readsNoValue(RuleContext& context) {
  std::vector<Operand> outputs;
  for (Value* output : context.emitSame(context.inputs())) outputs.push_back({output, false});
  return outputs;
}

RuleResult allOperandsStacked(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (context.isTensor(i)) inputs[i] = context.stacked(i);
  }
  return stackedResults(context.emitSame(inputs));
}

RuleResult stackedResults(const std::vector<Value*>& values) {
  std::vector<Operand> operands;
  for (Value* value : values) operands.push_back({value, true});
  return operands;
}

RuleRows rowsOf(const std::string& family, const BatchingRule& rule,
                std::initializer_list<const char*> names) {
  RuleRows rows;
  for (const char* name : names) rows.push_back({"aten::" + std::string(name), rule, family});
  return rows;
}

RuleRows concatenated(std::initializer_list<RuleRows> parts) {
  RuleRows all;
  for (const RuleRows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace chorus
