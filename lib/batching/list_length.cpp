#include "lib/batching/list_length.h"

#include <torch/csrc/jit/ir/constants.h>

#include "lib/batching/dims.h"

namespace chorus {
namespace {

const Value* argument(const Node* node, const char* name) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr) return nullptr;
  const auto index = schema->argumentIndexWithName(name);
  return index ? node->inputs().at(static_cast<size_t>(*index)) : nullptr;
}

std::optional<int64_t> constantInt(const Value* value) {
  if (value == nullptr) return std::nullopt;
  const auto known = torch::jit::toIValue(value);
  if (!known || !known->isInt()) return std::nullopt;
  return known->toInt();
}

std::optional<size_t> lengthOfInts(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (value->node()->kind() == c10::prim::ListConstruct) return value->node()->inputs().size();
  const auto known = torch::jit::toIValue(value);
  if (!known || !known->isIntList()) return std::nullopt;
  return known->toIntVector().size();
}

std::optional<int64_t> rankOf(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  if (type == nullptr || !type->dim()) return std::nullopt;
  return static_cast<int64_t>(*type->dim());
}

/// Size along the node's `dim` argument, where it does not follow the batch size.
std::optional<int64_t> sizeAlongDim(const Node* node) {
  const auto rank = rankOf(node->input(0));
  const auto dim = constantInt(argument(node, "dim"));
  if (!rank || !dim || *rank == 0) return std::nullopt;
  return node->input(0)->type()->expectRef<c10::TensorType>().sizes()[static_cast<size_t>(
      wrapDim(*dim, *rank))];
}

}  // namespace

std::optional<size_t> listLength(const Value* list) {
  const Node* node = list->node();
  if (node->kind() == c10::prim::ListConstruct) return node->inputs().size();
  for (const auto& use : list->uses()) {
    if (use.user->kind() == c10::prim::ListUnpack) return use.user->outputs().size();
  }
  const std::string op = node->kind().toQualString();
  if (op == "aten::broadcast_tensors" || op == "aten::meshgrid" || op.starts_with("aten::atleast_"))
    return listLength(node->input(0));
  if (op == "aten::tensor_split" || op == "aten::hsplit" || op == "aten::vsplit" ||
      op == "aten::dsplit") {
    if (const auto places = lengthOfInts(node->input(1))) return *places + 1;
    const auto sections = constantInt(node->input(1));
    return sections ? std::optional(static_cast<size_t>(*sections)) : std::nullopt;
  }
  if (op == "aten::gradient") {  // one for each dim
    const Value* dim = argument(node, "dim");
    if (const auto dims = lengthOfInts(dim)) return dims;
    if (constantInt(dim)) return 1;
    const auto rank = rankOf(node->input(0));
    return rank ? std::optional(static_cast<size_t>(*rank)) : std::nullopt;
  }
  if (op == "aten::unbind" || op == "aten::unbind_copy") {
    const auto size = sizeAlongDim(node);
    return size ? std::optional(static_cast<size_t>(*size)) : std::nullopt;
  }
  if (op == "aten::split" || op == "aten::split_with_sizes" || op == "aten::unsafe_split" ||
      op == "aten::split_copy" || op == "aten::split_with_sizes_copy" ||
      op == "aten::unsafe_split_with_sizes") {
    const Value* sizes = node->input(1);
    if (const auto length = lengthOfInts(sizes)) return length;
    const auto part = constantInt(sizes);
    const auto size = sizeAlongDim(node);
    if (!part || !size || *part <= 0) return std::nullopt;
    return static_cast<size_t>(std::max<int64_t>(1, (*size + *part - 1) / *part));
  }
  if (op == "aten::chunk" || op == "aten::unsafe_chunk") {
    const auto chunks = constantInt(node->input(1));
    const auto size = sizeAlongDim(node);
    if (!chunks || !size || *chunks <= 0 || *size == 0) return std::nullopt;
    const int64_t part = (*size + *chunks - 1) / *chunks;
    return static_cast<size_t>((*size + part - 1) / part);
  }
  return std::nullopt;
}

std::optional<int64_t> elementRank(const Value* list) {
  const Node* node = list->node();
  const std::string op = node->kind().toQualString();
  const bool keeps_rank = op == "aten::split" || op == "aten::split_with_sizes" ||
                          op == "aten::unsafe_split" || op == "aten::chunk" ||
                          op == "aten::unsafe_chunk" || op == "aten::tensor_split" ||
                          op == "aten::hsplit" || op == "aten::vsplit" || op == "aten::dsplit" ||
                          op == "aten::split_copy" || op == "aten::split_with_sizes_copy" ||
                          op == "aten::unsafe_split_with_sizes" || op == "aten::gradient";
  if (keeps_rank) return rankOf(node->input(0));
  if (op != "aten::unbind" && op != "aten::unbind_copy") return std::nullopt;
  const auto rank = rankOf(node->input(0));
  return rank ? std::optional(*rank - 1) : std::nullopt;
}

}  // namespace chorus
