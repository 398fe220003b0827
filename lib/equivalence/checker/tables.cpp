#include "lib/equivalence/checker/tables.h"

#include <torch/csrc/jit/ir/constants.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "chorus/varying_policy.h"

namespace chorus::checker {
namespace {

std::string bitsOf(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), 17, "%016lx", std::bit_cast<unsigned long>(value));
  return digits.data();
}

std::string scalarKey(const c10::IValue& value) {
  if (value.isNone()) return "n";
  if (value.isBool()) return value.toBool() ? "b1" : "b0";
  if (value.isInt()) return c10::str("i", value.toInt());
  if (value.isDouble()) return c10::str("d", bitsOf(value.toDouble()));
  if (value.isString()) return c10::str("s", value.toStringRef().size(), ":", value.toStringRef());
  if (value.isDevice()) return c10::str("v", value.toDevice().str());
  require(value.isComplexDouble(), {"a constant is of the kind ", value.tagKind()});
  const c10::complex<double> number = value.toComplexDouble();
  return c10::str("c", bitsOf(number.real()), ",", bitsOf(number.imag()));
}

std::string keyOf(const c10::IValue& value) {
  if (!value.isList() && !value.isTuple()) return scalarKey(value);
  const auto elements =
      value.isList() ? value.toListRef().vec() : value.toTupleRef().elements().vec();
  std::string key;
  for (const c10::IValue& element : elements) key += (key.empty() ? "" : ",") + scalarKey(element);
  return value.isList() ? c10::str("[", key, "]") : c10::str("(", key, ")");
}

/// True if `facts` is a list of scalar constants; then its key replaces its text.
bool isLiteralList(const Table& table, NodeFacts& facts) {
  if (facts.node->kind() != torch::jit::prim::ListConstruct) return false;
  std::string key;
  for (const Value* element : facts.node->inputs()) {
    if (table.isInput(element)) return false;
    const NodeFacts& maker = table.maker(element);
    const bool scalar = maker.node->kind() == torch::jit::prim::Constant && maker.text[0] != '[' &&
                        maker.text[0] != '(';
    if (!scalar) return false;
    key.append(key.empty() ? "" : ",").append(maker.text);
  }
  facts.text = c10::str("[", key, "]");
  return true;
}

bool isCommutative(const Table& table, const NodeFacts& facts) {
  static const std::set<std::string> always = {
      "aten::mul.Tensor",         "aten::eq.Tensor",         "aten::ne.Tensor",
      "aten::logical_and",        "aten::logical_or",        "aten::logical_xor",
      "aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor", "aten::bitwise_xor.Tensor",
      "aten::__and__.Tensor",     "aten::__or__.Tensor",     "aten::__xor__.Tensor"};
  if (always.count(facts.text) != 0) return true;
  if (facts.text != "aten::add.Tensor") return false;
  const Value* alpha = facts.node->inputs()[2];
  return !table.isInput(alpha) && table.maker(alpha).literal && table.maker(alpha).text == "i1";
}

std::vector<char> varyingOperands(const Table& table, const Node* node) {
  std::vector<char> varying(node->inputs().size());
  const std::string_view op = node->kind().toQualString();
  const auto* row = std::ranges::find(kVaryingPolicy, op, &VaryingPolicy::op);
  if (row == std::end(kVaryingPolicy) || !node->maybeSchema()) return varying;
  for (const Value* output : node->outputs()) {
    if (!output->type()->castRaw<c10::TensorType>()) return varying;
  }
  const std::string names = c10::str(" ", row->arguments, " ");
  for (size_t i = 0; i < varying.size(); ++i) {
    const std::string name = c10::str(" ", node->schema().arguments().at(i).name(), " ");
    const Value* input = node->inputs()[i];
    const NodeFacts* maker = table.isInput(input) ? nullptr : &table.maker(input);
    const bool number = maker && maker->literal && (maker->text[0] == 'i' || maker->text[0] == 'd');
    varying[i] = number && names.find(name) != std::string::npos;
  }
  return varying;
}

bool hasFloatingOperand(const Node* node) {
  const auto* type =
      node->inputs().empty() ? nullptr : node->inputs()[0]->type()->castRaw<c10::TensorType>();
  return type && type->scalarType() && c10::isFloatingType(*type->scalarType());
}

NodeFacts factsOf(const Table& table, const Node* node) {
  NodeFacts facts;
  facts.node = node;
  facts.operands.assign(node->inputs().begin(), node->inputs().end());
  if (node->kind() == torch::jit::prim::Constant) {
    const std::optional<c10::IValue> value = torch::jit::toIValue(node->output());
    require(value.has_value(), {"a constant has no value"});
    facts.text = keyOf(*value);
    facts.literal = true;
  } else if (isLiteralList(table, facts)) {
    facts.literal = true;
  } else {
    const std::string op = node->kind().toQualString();
    require(!node->hasAttributes(), {op, " has attributes"});
    const auto* schema = node->maybeSchema();
    const bool overloaded = schema && !schema->overload_name().empty();
    facts.text = overloaded ? c10::str(op, ".", schema->overload_name()) : op;
    facts.commutative = isCommutative(table, facts);
    facts.floating = hasFloatingOperand(node);
    facts.varying = varyingOperands(table, node);
  }
  return facts;
}

void markLive(Table& table) {
  std::vector<const Value*> work(table.canonical->graph->outputs().begin(),
                                 table.canonical->graph->outputs().end());
  while (!work.empty()) {
    const Value* value = work.back();
    work.pop_back();
    if (table.isInput(value)) continue;
    NodeFacts& facts = table.nodes[table.index_of.at(value->node())];
    if (std::exchange(facts.live, true)) continue;
    work.insert(work.end(), facts.operands.begin(), facts.operands.end());
  }
}

/// The nodes of a branch's or loop's blocks come before it, each block's state first.
void addBlock(Table& table, const torch::jit::Block& block) {
  const auto add = [&](NodeFacts facts) {
    facts.varying.resize(facts.operands.size());
    const auto index = static_cast<uint32_t>(table.nodes.size());
    table.index_of[facts.node] = index;
    if (facts.literal) table.first_literal.emplace(facts.text, index);
    table.nodes.push_back(facts);
  };
  for (const Node* node : block.nodes()) {
    std::vector<const Value*> inner;
    for (const torch::jit::Block* part : node->blocks()) {
      const auto takes = part->inputs(), gives = part->outputs();
      const std::vector<const Value*> reads(node->inputs().begin(), node->inputs().end());
      if (!takes.empty()) add({part->param_node(), "prim::Param", reads});
      addBlock(table, *part);
      inner.insert(inner.end(), takes.begin(), takes.end());
      inner.insert(inner.end(), gives.begin(), gives.end());
    }
    NodeFacts facts = factsOf(table, node);
    facts.operands.insert(facts.operands.end(), inner.begin(), inner.end());
    add(facts);
  }
}

}  // namespace

void require(bool holds, std::initializer_list<std::string> parts) {
  if (!holds) throw Rejected(std::accumulate(parts.begin(), parts.end(), std::string()));
}

Table tableOf(const Member& member, const CanonicalGraph& canonical) {
  Table table;
  table.canonical = &canonical;
  const Graph& graph = *canonical.graph;
  const bool fits = canonical.n_inputs == member.inputs.size() &&
                    graph.inputs().size() == member.inputs.size() + member.slots.size() &&
                    graph.outputs().size() == canonical.n_outputs + canonical.updates.size();
  require(fits, {"a graph does not have the member's inputs and outputs"});
  addBlock(table, *graph.block());
  for (size_t j = 0; j < canonical.updates.size(); ++j) {
    const size_t slot = canonical.updates[j];
    const Value* value = graph.outputs()[canonical.n_outputs + j];
    const bool once = slot < member.slots.size() && table.update_of.emplace(slot, value).second;
    require(once, {"slot ", std::to_string(slot), " is updated twice or unknown"});
  }
  markLive(table);
  return table;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  uint64_t x = (std::rotl(hash, 23) + 0x9e3779b97f4a7c15) ^ word;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 29);
}

uint64_t hashOf(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  const auto* bytes = static_cast<const char*>(plain.const_data_ptr());
  uint64_t hash = mix(0, static_cast<uint64_t>(plain.scalar_type())), content = 0;
  for (const int64_t size : plain.sizes()) hash = mix(hash, static_cast<uint64_t>(size));
  for (size_t at = 0; at < plain.nbytes(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, plain.nbytes() - at));
    content = mix(content, word);
  }
  return mix(hash, mix(content, plain.nbytes()));
}

}  // namespace chorus::checker
