#include "lib/support/table_rows.h"

#include <set>
#include <string>

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// It keeps all elements of its first argument as they are.
bool keepsAll(const Node* node) {
  static const std::set<std::string> names = {
      "aten::to",        "aten::detach",  "aten::contiguous", "aten::clone",    "aten::view",
      "aten::reshape",   "aten::flatten", "aten::unflatten",  "aten::squeeze",  "aten::unsqueeze",
      "aten::transpose", "aten::permute", "aten::t",          "aten::expand_as"};
  return names.count(node->kind().toQualString()) > 0;
}

}  // namespace

std::map<size_t, int64_t> inputsThatAreRows(const Graph& graph) {
  static const std::set<std::string> tables = {"aten::embedding", "aten::embedding_bag"};
  std::map<size_t, int64_t> found;
  for (const Node* node : graph.nodes()) {
    if (!tables.count(node->kind().toQualString())) continue;
    const auto* table = node->input(0)->type()->castRaw<c10::TensorType>();
    if (table == nullptr || !table->dim() || *table->dim() == 0 || !table->sizes()[0]) continue;
    const Value* rows = node->input(1);
    while (rows->node() != graph.block()->param_node() && keepsAll(rows->node()))
      rows = rows->node()->input(0);
    if (rows->node() != graph.block()->param_node()) continue;
    const int64_t most = *table->sizes()[0];
    const auto [at, fresh] = found.emplace(rows->offset(), most);
    if (!fresh) at->second = std::min(at->second, most);
  }
  return found;
}

}  // namespace chorus
