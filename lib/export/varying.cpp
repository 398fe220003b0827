#include "lib/export/varying.h"

#include <bit>

#include "lib/batching/varying.h"
#include "lib/support/fault.h"
#include "lib/support/graph_order.h"

namespace chorus {
namespace {

/// Of a literal's key (chorus/certificate.h) of kind i or d.
double numberOf(const std::string& key) {
  if (key == "dnan") return std::numeric_limits<double>::quiet_NaN();
  if (key[0] == 'i') return static_cast<double>(std::stoll(key.substr(1)));
  return std::bit_cast<double>(static_cast<uint64_t>(std::stoull(key.substr(1), nullptr, 16)));
}

at::Tensor numbersOf(const std::vector<std::string>& keys) {
  const auto is_int = [](const std::string& key) { return key[0] == 'i'; };
  if (std::ranges::all_of(keys, is_int)) {
    std::vector<int64_t> values;
    for (const std::string& key : keys) values.push_back(std::stoll(key.substr(1)));
    return at::tensor(values, at::kLong);
  }
  std::vector<double> values;
  for (const std::string& key : keys) values.push_back(numberOf(key));
  return at::tensor(values, at::kDouble);
}

/// Lists and constants are made anew whenever a graph is read; ops are not.
bool isOp(const Node* node) { return !node->kind().is_prim(); }

const CanonicalGraph& graphOf(const Member& member, bool eval) {
  return eval ? member.eval : member.train;
}

VaryingNumber::Place placeOfAttribute(const VaryingAttribute& attribute, const Member& first) {
  size_t index = 0, op = 0;
  for (const Node* node : nodesInOrder(*graphOf(first, attribute.mode == 1).graph)) {
    if (index++ == attribute.node) {
      return {attribute.mode == 1, op, node->kind().toQualString(), attribute.operand};
    }
    op += isOp(node);
  }
  throw Refused(internalError("the certificate names a node that is not there"));
}

}  // namespace

std::vector<VaryingNumber> varyingNumbers(const Certificate& certificate, const Member& first) {
  std::vector<VaryingNumber> numbers;
  std::map<std::vector<std::string>, size_t> known;
  for (const VaryingAttribute& attribute : certificate.attributes) {
    const auto [entry, is_new] = known.emplace(attribute.values, numbers.size());
    if (is_new) numbers.push_back({numbersOf(attribute.values), {}});
    numbers[entry->second].places.push_back(placeOfAttribute(attribute, first));
  }
  return numbers;
}

Node* varyingNode(const Graph& graph, const VaryingNumber::Place& place) {
  size_t op = 0;
  for (Node* node : nodesInOrder(graph)) {
    if (!isOp(node) || op++ != place.op) continue;
    if (node->kind().toQualString() != place.name || place.operand >= node->inputs().size()) break;
    return node;
  }
  throw Refused(internalError("no " + place.name + " is op " + std::to_string(place.op) +
                              " of the graph, as the list of varying numbers says"));
}

void writeNumbers(Graph& graph, const std::vector<VaryingNumber>& numbers, bool eval, size_t k) {
  for (const VaryingNumber& number : numbers) {
    const at::Tensor value = number.values.select(0, static_cast<int64_t>(k));
    for (const VaryingNumber::Place& place : number.places) {
      if (place.eval != eval) continue;
      Node* node = varyingNode(graph, place);
      const torch::jit::WithInsertPoint here(node);
      const bool is_int = value.scalar_type() == at::kLong;
      Value* literal = is_int ? graph.insertConstant(value.item<int64_t>())
                              : graph.insertConstant(value.item<double>());
      node->replaceInput(place.operand, literal);
    }
  }
}

void liftNumbers(Graph& graph, const FusedModel& model, bool eval, bool counter_based_random) {
  std::map<Node*, std::map<size_t, Value*>> operands;
  std::vector<Node*> nodes;
  for (size_t i = 0; i < model.varying.size(); ++i) {
    const at::Tensor& values = model.varying[i].values;
    Value* input = graph.addInput("n" + std::to_string(i));
    input->setType(
        c10::TensorType::create(values.scalar_type(), std::nullopt,
                                c10::SymbolicShape(std::vector<std::optional<int64_t>>{}),
                                c10::VaryingShape<c10::Stride>{}, false));
    for (const VaryingNumber::Place& place : model.varying[i].places) {
      if (place.eval != eval) continue;
      Node* node = varyingNode(graph, place);
      if (!operands.contains(node)) nodes.push_back(node);
      operands[node][place.operand] = input;
    }
  }
  for (Node* node : nodes) liftVarying(node, operands.at(node), {counter_based_random});
}

std::string varyingName(size_t i) { return "varying_" + std::to_string(i); }

std::string varyingTitle(const FusedModel& model, const VaryingNumber& number) {
  const VaryingNumber::Place& place = number.places.at(0);
  const Node* node = varyingNode(*graphOf(model.prototype, place.eval).graph, place);
  std::string op = node->kind().toUnqualString();
  if (op == "_native_batch_norm_legit_functional") op = "batch_norm";
  return op + " '" + node->schema().arguments().at(place.operand).name() + "'";
}

}  // namespace chorus
