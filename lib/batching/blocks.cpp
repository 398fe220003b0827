// Branches and loops whose condition and length all members share: fused block by block.
#include "lib/batching/batcher.h"
#include "lib/batching/clone_node.h"

namespace chorus {

using torch::jit::Block;
using torch::jit::WithInsertPoint;

/// A block's result, as what the node gives.
Value* Batcher::asResult(const Node* node, const Operand& operand, bool stacked) {
  return stacked && !operand.stacked ? stackedOf(node, operand) : operand.value;
}

/// If(c): f(x) | g(x)   ==>   If(c): f*(x) | g*(x), a result stacked where one of the two is
void Batcher::visitIf(const Node* node) {
  Node* made =
      fused_->insertNode(fused_->create(c10::prim::If, {operandOf(node->input()).value}, 0));
  std::vector<std::vector<Operand>> results;
  for (const Block* block : node->blocks()) {
    const WithInsertPoint inside(made->addBlock());
    visitBlock(*block);
    results.emplace_back();
    for (const Value* output : block->outputs()) results.back().push_back(operandOf(output));
  }
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const bool stacked = results[0][i].stacked || results[1][i].stacked;
    for (size_t b = 0; b < 2; ++b) {
      const WithInsertPoint inside(made->blocks()[b]);
      made->blocks()[b]->registerOutput(asResult(node, results[b][i], stacked));
    }
    Value* output = made->addOutput()->setType(c10::unshapedType(node->output(i)->type()));
    bind(node->output(i), {output, stacked});
  }
  decide(node, Decision::Kind::Fused, "control flow", "");
}

/// Emits the loop with `stacked` of its state; false where the body stacks more, which `stacked`
/// then says. Nothing is left behind.
bool Batcher::tryLoop(const Node* node, std::vector<bool>& stacked) {
  const size_t decisions = result_.decisions.size();
  const Block& body = *node->blocks().at(0);
  std::vector<Value*> inputs = {operandOf(node->input(0)).value, operandOf(node->input(1)).value};
  for (size_t i = 0; i < stacked.size(); ++i) {
    inputs.push_back(asResult(node, operandOf(node->input(i + 2)), stacked[i]));
  }
  Node* made = fused_->insertNode(fused_->create(c10::prim::Loop, inputs, 0));
  Block* fused_body = made->addBlock();
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    const Value* input = body.inputs()[i];
    Value* copy = fused_body->addInput()->setType(c10::unshapedType(input->type()));
    bind(input, {copy, i > 0 && stacked[i - 1]});
  }
  const std::vector<bool> before = stacked;
  std::vector<Operand> results;
  {
    const WithInsertPoint inside(fused_body);
    visitBlock(body);
    for (const Value* output : body.outputs()) results.push_back(operandOf(output));
    for (size_t i = 0; i < stacked.size(); ++i) stacked[i] = stacked[i] || results[i + 1].stacked;
    if (stacked == before) {
      fused_body->registerOutput(results[0].value);
      for (size_t i = 0; i < stacked.size(); ++i) {
        fused_body->registerOutput(asResult(node, results[i + 1], stacked[i]));
      }
    }
  }
  if (stacked != before) {
    made->destroy();
    result_.decisions.resize(decisions);
    return false;
  }
  for (size_t i = 0; i < stacked.size(); ++i) {
    Value* output = made->addOutput()->setType(c10::unshapedType(node->output(i)->type()));
    bind(node->output(i), {output, stacked[i]});
  }
  return true;
}

void Batcher::visitLoop(const Node* node) {
  std::vector<bool> stacked;
  for (size_t i = 2; i < node->inputs().size(); ++i)
    stacked.push_back(operandOf(node->input(i)).stacked);
  while (!tryLoop(node, stacked)) {
  }
  decide(node, Decision::Kind::Fused, "control flow", "");
}

}  // namespace chorus
