#include <cctype>

#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// "ij,jk->ik" in parts.
struct Equation {
  std::vector<std::string> operands;
  std::string output;
};

// The output that torch.einsum implies: the dims of "...", then the letters that occur once, in
// order.
std::string impliedOutput(const std::string& inputs) {
  std::map<char, int> count;
  for (char c : inputs) {
    if (std::isalpha(static_cast<unsigned char>(c))) ++count[c];
  }
  std::string output = inputs.find("...") == std::string::npos ? "" : "...";
  for (const auto& [letter, times] : count) {
    if (times == 1) output += letter;
  }
  return output;
}

Equation parse(std::string text) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  Equation equation;
  equation.output = arrow == std::string::npos ? impliedOutput(inputs) : text.substr(arrow + 2);
  size_t start = 0;
  while (true) {
    const size_t comma = inputs.find(',', start);
    equation.operands.push_back(inputs.substr(start, comma - start));
    if (comma == std::string::npos) return equation;
    start = comma + 1;
  }
}

char unusedLetter(const std::string& text) {
  for (char c = 'z'; c >= 'a'; --c) {
    if (text.find(c) == std::string::npos) return c;
  }
  for (char c = 'Z'; c >= 'A'; --c) {
    if (text.find(c) == std::string::npos) return c;
  }
  return 0;
}

// aten::einsum(equation, tensors, path?): "ij,jk->ik" -> "zij,zjk->zik", z where the operand is
// stacked
RuleResult rule(RuleContext& context) {
  const auto text = context.constant(0);
  if (!text || !text->isString()) return std::nullopt;
  const Equation equation = parse(text->toStringRef());
  const std::vector<Operand> operands = context.elements(1);
  if (equation.operands.size() != operands.size()) return std::nullopt;
  const char letter = unusedLetter(text->toStringRef());
  if (!letter) return context.decline("all letters are taken");
  std::string fused;
  std::vector<Value*> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) fused += ',';
    if (operands[i].stacked) fused += letter;
    fused += equation.operands[i];
    values.push_back(operands[i].value);
  }
  fused += std::string("->") + letter + equation.output;
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.constantOf(fused);
  inputs[1] = context.tensorList(values);
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows einsum() { return {{"aten::einsum", rule, "contraction"}}; }

}  // namespace chorus
