// Forward analysis: which values differ between members, and which of them in shape or as a number.
#include <torch/csrc/jit/ir/constants.h>

#include "chorus/batching_rule.h"
#include "lib/batching/clone_node.h"
#include "lib/batching/draws_numbers.h"
#include "lib/batching/regions.h"
#include "lib/support/choice.h"

namespace chorus {
namespace {

using torch::jit::Block;

bool isTensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }
bool holdsTensors(const Value* value) {
  return isTensor(value) || isTensorListType(value->type()) ||
         value->type()->kind() == c10::TypeKind::TupleType;
}

bool isMask(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  return type != nullptr && (type->scalarType() == at::kBool || type->scalarType() == at::kByte);
}

bool allSizesKnown(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  return type != nullptr && type->sizes().concrete_sizes().has_value();
}

/// Inputs whose contents decide the sizes of the results.
std::vector<const Value*> sizeDeciders(const Node* node) {
  static const std::map<std::string, size_t> arguments = {{"nonzero", 0},
                                                          {"nonzero_numpy", 0},
                                                          {"argwhere", 0},
                                                          {"_unique", 0},
                                                          {"_unique2", 0},
                                                          {"unique_dim", 0},
                                                          {"bincount", 0},
                                                          {"unique_consecutive", 0},
                                                          {"masked_select", 1},
                                                          {"unique_dim_consecutive", 0},
                                                          {"_pack_padded_sequence", 1}};
  const std::string name = node->kind().toUnqualString();
  if (!node->kind().is_aten()) return {};
  if (const auto found = arguments.find(name); found != arguments.end())
    return {node->input(found->second)};
  if (name == "where" && node->inputs().size() == 1) return {node->input(0)};
  if (name == "repeat_interleave") {
    const size_t counts = node->inputs().size() > 1 && isTensor(node->input(1)) ? 1 : 0;
    const bool given = counts == 1 || node->inputs().size() == 2;
    const bool told = node->inputs().back()->type()->kind() == c10::TypeKind::IntType;
    if (!given || told || !isTensor(node->input(counts))) return {};
    return {node->input(counts)};
  }
  std::vector<const Value*> masks;
  if (name != "index" || node->input(1)->node()->kind() != c10::prim::ListConstruct) return masks;
  for (const Value* index : node->input(1)->node()->inputs()) {
    if (isMask(index)) masks.push_back(index);
  }
  return masks;
}

/// The result has the sizes of the argument with this number, whatever the others are.
std::optional<size_t> sizesAreThoseOf(const std::string& name) {
  static const std::set<std::string> first = {
      "index_put",     "index_add",      "index_copy",     "index_fill",      "scatter",
      "scatter_add",   "scatter_reduce", "masked_scatter", "masked_fill",     "select_scatter",
      "slice_scatter", "copy",           "zeros_like",     "ones_like",       "full_like",
      "type_as",       "fill",           "index_reduce",   "diagonal_scatter"};
  static const std::set<std::string> second = {"view_as", "reshape_as", "expand_as"};
  if (first.count(name)) return 0;
  if (second.count(name)) return 1;
  return std::nullopt;
}

/// The second result of packing and unpacking, rows per step and lengths, is made of the second
/// argument.
bool isMadeOfLengths(const Node* node, const Value* output) {
  static const std::set<std::string> names = {"_pack_padded_sequence", "_pad_packed_sequence"};
  return output->offset() == 1 && node->kind().is_aten() &&
         names.count(node->kind().toUnqualString()) > 0;
}

bool readsShapeOnly(const std::string& name) {
  static const std::set<std::string> names = {"size",
                                              "numel",
                                              "dim",
                                              "len",
                                              "dtype",
                                              "device",
                                              "layout",
                                              "shape",
                                              "stride",
                                              "ndim",
                                              "is_cuda",
                                              "is_cpu",
                                              "is_floating_point",
                                              "is_complex"};
  return names.count(name) > 0;
}

/// Numbers among its arguments are operands, never sizes.
bool numbersAreOperands(const Node* node) {
  const RuleRow* row = findRule(node->kind().toQualString());
  return row != nullptr && (row->family == "elementwise" || row->family == "broadcasting");
}

class Analysis {
 public:
  explicit Analysis(Dependence& into) : into_(into) {}

  void block(const Block& block) {
    for (const Node* node : block.nodes()) visit(node);
  }
  void stack(const Value* value) { grew_ |= into_.stacked.insert(value).second; }

 private:
  bool stacked(const Value* value) const { return into_.stacked.count(value) > 0; }
  bool ragged(const Value* value) const { return into_.ragged.count(value) > 0; }
  void roughen(const Value* value) { grew_ |= into_.ragged.insert(value).second; }
  void touch(const Node* node) { into_.touched.insert(node); }

  void visit(const Node* node) {
    if (node->kind() == c10::prim::Constant) return;
    if (node->kind() == c10::prim::If) return branch(node);
    if (node->kind() == c10::prim::Loop) return loop(node);
    if (isChoice(node)) return choice(node);
    bool any_stacked = drawsNumbers(node, findRule(node->kind().toQualString()));
    bool any_ragged = false, ragged_shape = false;
    for (const Value* input : node->inputs()) {
      any_stacked |= stacked(input);
      any_ragged |= ragged(input);
      const auto kind = input->type()->kind();
      const bool number = kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType ||
                          kind == c10::TypeKind::NumberType ||
                          (kind == c10::TypeKind::IntType && numbersAreOperands(node));
      ragged_shape |= ragged(input) && !number;
    }
    const std::string name = node->kind().toUnqualString();
    const auto like = sizesAreThoseOf(name);
    if (like) ragged_shape = ragged(node->input(*like));
    const auto deciders = sizeDeciders(node);
    const bool decided = std::any_of(deciders.begin(), deciders.end(),
                                     [&](const Value* v) { return stacked(v) || ragged(v); });
    bool makes_ragged = false;
    for (const Value* output : node->outputs()) {
      if (holdsTensors(output)) {
        const bool own = isMadeOfLengths(node, output) ? stacked(node->input(1)) : any_stacked;
        if (own) stack(output);
        if (decided || (ragged_shape && !allSizesKnown(output))) {
          roughen(output);
          makes_ragged = true;
        }
      } else if (any_ragged || (any_stacked && !readsShapeOnly(name))) {
        roughen(output);
        stack(output);
        makes_ragged = true;
      }
    }
    if (any_ragged || makes_ragged) touch(node);
  }

  /// Something from outside that it reads is ragged.
  bool readsRagged(const Node* node) const {
    const auto values = valuesRead(node);
    return std::any_of(values.begin(), values.end(), [&](const Value* v) { return ragged(v); });
  }

  void branch(const Node* node) {
    for (const Block* part : node->blocks()) block(*part);
    const bool own = ragged(node->input());
    bool escapes = false;
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      for (const Block* part : node->blocks()) {
        if (own || stacked(part->outputs()[i])) stack(node->output(i));
        if (!ragged(part->outputs()[i])) continue;
        roughen(node->output(i));
        escapes = true;
      }
      if (own && !isTensor(node->output(i))) roughen(node->output(i));
    }
    if (own || escapes || readsRagged(node)) touch(node);
  }

  void choice(const Node* node) {
    bool escapes = false;
    for (const Block* part : node->blocks()) {
      block(*part);
      for (size_t i = 0; i < node->outputs().size(); ++i) {
        stack(node->output(i));
        if (!ragged(part->outputs()[i])) continue;
        roughen(node->output(i));
        escapes = true;
      }
    }
    if (escapes || readsRagged(node)) touch(node);
  }

  void loop(const Node* node) {
    const Block& body = *node->blocks().at(0);
    const auto carry = [&](const Value* from, const Value* to) {
      if (stacked(from)) stack(to);
      if (ragged(from)) roughen(to);
    };
    for (size_t i = 2; i < node->inputs().size(); ++i) carry(node->input(i), body.inputs()[i - 1]);
    do {
      grew_ = false;
      block(body);
      for (size_t i = 1; i < body.outputs().size(); ++i) {
        carry(body.outputs()[i], body.inputs()[i]);
      }
    } while (grew_);
    const bool own = ragged(node->input(0)) || ragged(node->input(1)) || ragged(body.outputs()[0]);
    bool escapes = false;
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      const Value* output = node->output(i);
      carry(body.outputs()[i + 1], output);
      carry(body.inputs()[i + 1], output);
      if (own) stack(output);
      if (own && !isTensor(output)) roughen(output);
      escapes |= ragged(output);
    }
    grew_ = true;  // an outer loop looks once more
    if (own || escapes || readsRagged(node)) touch(node);
  }

  Dependence& into_;
  bool grew_ = false;
};

}  // namespace

std::vector<const Value*> valuesRead(const Node* node) {
  std::vector<const Value*> values(node->inputs().begin(), node->inputs().end());
  if (node->blocks().empty()) return values;
  std::unordered_set<const Value*> inner;
  std::vector<const Value*> read;
  const std::function<void(const Block&)> collect = [&](const Block& block) {
    inner.insert(block.inputs().begin(), block.inputs().end());
    for (const Node* part : block.nodes()) {
      read.insert(read.end(), part->inputs().begin(), part->inputs().end());
      for (const Block* deeper : part->blocks()) collect(*deeper);
      inner.insert(part->outputs().begin(), part->outputs().end());
    }
    read.insert(read.end(), block.outputs().begin(), block.outputs().end());
  };
  for (const Block* block : node->blocks()) collect(*block);
  for (const Value* value : read) {
    if (!inner.count(value)) values.push_back(value);
  }
  return values;
}

Dependence dependenceOf(const Graph& graph, const std::vector<bool>& stacked_inputs) {
  Dependence made;
  Analysis analysis(made);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (stacked_inputs.at(i)) analysis.stack(graph.inputs()[i]);
  }
  analysis.block(*graph.block());
  return made;
}

}  // namespace chorus
