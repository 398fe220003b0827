#include "lib/import/specializer.h"

namespace chorus {
namespace {

using torch::jit::Block;

constexpr int64_t kMostIterations = 100'000;

/// The block does nothing but raise.
bool raises(const Block& block) {
  return std::any_of(block.nodes().begin(), block.nodes().end(),
                     [](const Node* n) { return n->kind() == c10::prim::RaiseException; });
}

bool isGradModeObject(const c10::TypePtr& type) {
  const auto object = type->cast<c10::ClassType>();
  return object && object->name() &&
         object->name()->qualifiedName().find("autograd.grad_mode.") != std::string::npos;
}

}  // namespace

/// Where the condition follows the batch size, a block that only raises is a check: it is left out
/// if both examples pass it.
std::optional<bool> Specializer::decide(const Node& node, const AbstractPtr& condition) {
  if (!condition->clash.empty()) refuseUnsupported(&node, condition->clash);
  if (condition->kind != Abstract::Kind::Plain || !condition->first.isBool()) {
    refuseUnsupported(&node, "a branch depends on a value that is no bool");
  }
  const bool first = condition->first.toBool(), second = condition->second.toBool();
  if (!condition->varies) return first;
  // A check of data: what it lets pass is what the graph is for.
  const bool data = condition->data || condition->number;
  if (data && raises(*node.blocks().at(0))) return false;
  if (data && raises(*node.blocks().at(1))) return true;
  if (data) return std::nullopt;
  const bool other_raises = raises(*node.blocks().at(first ? 1 : 0));
  if (first == second && other_raises) return first;
  return std::nullopt;
}

void Specializer::runIf(const Node& node, Frame& frame) {
  const auto taken = decide(node, frame.at(node.input()));
  if (!taken) return runUndecidedIf(node, frame);
  const Block& block = *node.blocks().at(*taken ? 0 : 1);
  runBlock(block, frame);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    frame[node.outputs()[i]] = frame.at(block.outputs()[i]);
  }
}

/// Followed where length and condition are the same for every batch size and all data. A condition
/// that turns out to be data after some iterations: those are followed, the rest is a loop.
void Specializer::runLoop(const Node& node, Frame& frame) {
  const Block& body = *node.blocks().at(0);
  const AbstractPtr trips = frame.at(node.inputs()[0]);
  Arguments carried;
  for (size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(frame.at(node.inputs()[i]));
  AbstractPtr go = frame.at(node.inputs()[1]);
  const bool known_length = !trips->number && (!trips->varies || trips->first == trips->second);
  if (!known_length) return runUndecidedLoop(node, frame, {trips, go, carried, 0});
  const int64_t most = trips->first.toInt();
  for (int64_t i = 0; i < most; ++i) {
    if (go->varies) return runUndecidedLoop(node, frame, {trips, go, carried, i});
    if (!go->first.isBool() || !go->first.toBool()) break;
    if (i >= kMostIterations) {
      refuseUnsupported(&node,
                        "a loop runs more than " + std::to_string(kMostIterations) + " times");
    }
    frame[body.inputs()[0]] = plain(i);
    for (size_t j = 0; j < carried.size(); ++j) frame[body.inputs()[j + 1]] = carried[j];
    runBlock(body, frame);
    go = frame.at(body.outputs()[0]);
    for (size_t j = 0; j < carried.size(); ++j) carried[j] = frame.at(body.outputs()[j + 1]);
  }
  for (size_t j = 0; j < carried.size(); ++j) frame[node.outputs()[j]] = carried[j];
}

void Specializer::runRaise(const Node& node, const Arguments& arguments) {
  const std::string text = !arguments.empty() && arguments[0]->first.isString()
                               ? arguments[0]->first.toStringRef()
                               : "an exception";
  refuse(&node, "the model raises for these inputs: " + text);
}

/// `with torch.no_grad():`. What is computed inside is detached (operators.cpp).
bool Specializer::runGradMode(const Node& node, const Arguments& arguments) {
  if (node.kind() == c10::prim::CreateObject) {
    if (isGradModeObject(node.output()->type())) return true;
    refuseUnsupported(&node, "an object of class " + node.output()->type()->repr_str());
  }
  if (node.kind() != c10::prim::Enter && node.kind() != c10::prim::Exit) return false;
  const c10::TypePtr type = node.inputs().at(0)->type();
  if (!isGradModeObject(type) || type->repr_str().find("no_grad") == std::string::npos) {
    refuseUnsupported(&node, "a with-block of " + type->repr_str());
  }
  (void)arguments;
  no_grad_ += node.kind() == c10::prim::Enter ? 1 : -1;
  return true;
}

}  // namespace chorus
