#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"
#include "lib/batching/recurrent_text.h"
#include "lib/batching/script_code.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
// (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
constexpr size_t kInput = 0, kRowsOfSteps = 1;

bool anyOf(const std::vector<Operand>& operands) {
  return std::ranges::any_of(operands, &Operand::stacked);
}

/// The input is [S,C], packed steps.
bool isPacked(const RuleContext& context) { return context.has("batch_sizes"); }

/// h0, or h0 and c0 of an LSTM.
std::vector<Operand> statesOf(RuleContext& context, size_t i) {
  return context.isTensorList(i) ? context.elements(i) : std::vector<Operand>{context.operand(i)};
}

std::vector<Value*> stackedAll(RuleContext& context, const std::vector<Operand>& operands) {
  std::vector<Value*> values;
  for (const Operand& operand : operands) values.push_back(context.stackedOf(operand));
  return values;
}

// K into N at dim `at` of the member and back.  [K,T,N,C] -> [T,(K N),C]   [T,(K N),C] -> [K,T,N,C]
Value* foldAt(RuleContext& context, Value* x, int64_t at) {
  return context.emit("aten::flatten", {context.emit("aten::movedim", {x, 0, at}), at, at + 1});
}
Value* unfoldAt(RuleContext& context, Value* x, int64_t at) {
  Value* sizes = context.intList({context.memberCount(), context.constantOf(-1)});
  return context.emit("aten::movedim", {context.emit("aten::unflatten", {x, at, sizes}), at, 0});
}

/// One set of weights, packed steps: K rows for each.  [K,S,C] -> [(S K),C]
RuleResult sharedWeightsPacked(RuleContext& context) {
  const auto fold = [&](Value* x, int64_t at) {
    return context.emit("aten::flatten", {context.emit("aten::movedim", {x, 0, at}), at - 1, at});
  };
  const auto unfold = [&](Value* x, int64_t at) {
    Value* sizes = context.intList({context.constantOf(-1), context.memberCount()});
    x = context.emit("aten::unflatten", {x, at - 1, sizes});
    return context.emit("aten::movedim", {x, at, 0});
  };
  const size_t state = context.indexOf("hx");
  std::vector<Value*> inputs = context.inputs(), states;
  for (Value* one : stackedAll(context, statesOf(context, state))) states.push_back(fold(one, 2));
  inputs[kInput] = fold(context.stacked(kInput), 1);
  inputs[kRowsOfSteps] = context.emit("aten::mul", {inputs[kRowsOfSteps], context.memberCount()});
  inputs[state] = context.isTensorList(state) ? context.tensorList(states) : states[0];
  std::vector<Value*> outputs = context.emitSame(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = unfold(outputs[i], i == 0 ? 1 : 2);
  return stackedResults(outputs);
}

/// One set of weights: K times as many rows. `rows`: the dim of N in the input and in the states.
RuleResult sharedWeights(RuleContext& context, int64_t input_rows, int64_t state_rows) {
  const size_t state = context.indexOf("hx");
  std::vector<Value*> inputs = context.inputs(), states;
  for (Value* one : stackedAll(context, statesOf(context, state)))
    states.push_back(foldAt(context, one, state_rows));
  inputs[kInput] = foldAt(context, context.stacked(kInput), input_rows);
  inputs[state] = context.isTensorList(state) ? context.tensorList(states) : states[0];
  std::vector<Value*> outputs = context.emitSame(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool sequence = i == 0 && context.has("num_layers");
    outputs[i] = unfoldAt(context, outputs[i], sequence ? input_rows : state_rows);
  }
  return stackedResults(outputs);
}

std::optional<Cell> cellOf(const std::string& op) {
  if (op == "aten::lstm" || op == "aten::lstm_cell") return Cell::Lstm;
  if (op == "aten::gru" || op == "aten::gru_cell") return Cell::Gru;
  return op == "aten::rnn_tanh" || op == "aten::rnn_tanh_cell" ? Cell::Tanh : Cell::Relu;
}

/// nullopt where an argument is computed.
std::optional<RecurrentForm> formOf(RuleContext& context) {
  RecurrentForm form;
  const auto layers = context.constantInt(context.indexOf("num_layers"));
  if (!layers) return std::nullopt;
  form.cell = *cellOf(context.op());
  form.layers = *layers;
  const std::pair<const char*, bool*> flags[] = {{"has_biases", &form.biases},
                                                 {"train", &form.train},
                                                 {"bidirectional", &form.bidirectional},
                                                 {"batch_first", &form.batch_first}};
  for (const auto& [name, flag] : flags) {
    if (!context.has(name)) continue;
    const auto value = context.constant(context.indexOf(name));
    if (!value || !value->isBool()) return std::nullopt;
    *flag = value->toBool();
  }
  return form;
}

RuleResult sequence(RuleContext& context) {
  const bool packed = isPacked(context);
  const size_t dropout = context.indexOf("dropout");
  auto form = formOf(context);
  if (!form || !context.constant(dropout)) return context.decline("an argument is computed");
  if (context.rank(kInput) != (packed ? 2 : 3)) return context.decline("the input is not [T,N,C]");
  if (packed && isStacked(context, kRowsOfSteps))
    return context.decline("each member has its own lengths");
  const std::vector<Operand> params = context.elements(context.indexOf("params"));
  const std::vector<Operand> states = statesOf(context, context.indexOf("hx"));
  if (!anyOf(params)) {
    if (packed) return sharedWeightsPacked(context);
    return sharedWeights(context, form->batch_first ? 0 : 1, 1);
  }
  // passes/split_recurrent.cpp takes it out.
  if (form->train && !isNumber(context, dropout, 0))
    return context.decline("dropout inside the op");
  const auto directions = static_cast<size_t>(form->layers * (form->bidirectional ? 2 : 1));
  form->projections = params.size() != directions * (form->biases ? 4 : 2);
  form->stacked_input = isStacked(context, kInput);
  form->whole_kernel = form->cell == Cell::Lstm && !packed && !form->projections &&
                       context.dtype(kInput) == at::kFloat;
  const std::vector<Value*> first = stackedAll(context, states);
  std::vector<Value*> weights = stackedAll(context, params);
  if (fault("recurrent_weights_swapped")) std::swap(weights[0], weights[1]);
  std::vector<Value*> inputs = {context.operand(kInput).value, first.front(), first.back(),
                                context.tensorList(weights)};
  if (packed) inputs.insert(inputs.begin() + 1, context.operand(kRowsOfSteps).value);
  std::vector<Value*> results = emitScript(
      context, packed ? packedRecurrentText(*form) : recurrentText(*form), "recurrent", inputs);
  if (form->cell != Cell::Lstm) results.pop_back();
  return stackedResults(results);
}

// (input, hx, w_ih, w_hh, b_ih?, b_hh?)
RuleResult cell(RuleContext& context) {
  constexpr size_t kFirstWeight = 2, kBias = 4;
  if (context.rank(kInput) != 2) return context.decline("the input is not [N,C]");
  const bool biases = !context.isNone(kBias);
  if (biases == context.isNone(kBias + 1)) return context.decline("one bias of two");
  std::vector<Operand> params;
  for (size_t i = kFirstWeight; i < (biases ? kBias + 2 : kBias); ++i)
    params.push_back(context.operand(i));
  if (!anyOf(params)) return sharedWeights(context, 0, 0);
  const std::vector<Value*> first = stackedAll(context, statesOf(context, context.indexOf("hx")));
  const Cell kind = *cellOf(context.op());
  std::vector<Value*> results =
      emitScript(context, cellText(kind, biases), "cell",
                 {context.operand(kInput).value, first.front(), first.back(),
                  context.tensorList(stackedAll(context, params))});
  if (kind != Cell::Lstm) results.pop_back();
  return stackedResults(results);
}

}  // namespace

RuleRows recurrent() {
  return concatenated(
      {rowsOf("recurrent", sequence, {"lstm", "gru", "rnn_tanh", "rnn_relu"}),
       rowsOf("recurrent", cell, {"lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"})});
}

}  // namespace chorus
