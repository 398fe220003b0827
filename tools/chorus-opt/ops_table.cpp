#include "tools/chorus-opt/ops_table.h"

#include <torch/csrc/jit/passes/normalize_ops.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <map>

#include "chorus/batching_rule.h"
#include "chorus/member.h"
#include "chorus/scan.h"

namespace chorus {
namespace {

/// Where no rule could help.
const std::map<std::string, std::string> kRefused = {
    {"aten::as_strided_scatter", "depends on how the tensor lies in memory"},
    {"aten::nonzero", "the result's shape depends on values"},
    {"aten::nonzero_numpy", "the result's shape depends on values"},
    {"aten::argwhere", "the result's shape depends on values"},
    {"aten::item", "a number that depends on values"},
};

/// Has rules, and forms that are not batched.
const std::map<std::string, std::string> kNotes = {
    {"aten::index", "per member with a mask of each member's own"},
    {"aten::masked_select", "per member with a mask of each member's own"},
    {"aten::index_put", "per member with a mask of each member's own and a value per place"},
    {"aten::as_strided", "refused where the tensor may lie in memory otherwise than row by row"},
    {"aten::as_strided_copy", "refused where the tensor may lie in memory otherwise"},
    {"aten::one_hot", "refused without a number of classes"},
    {"aten::repeat_interleave", "refused with counts that are a tensor"},
    {"aten::median", "per member over all elements"},
    {"aten::nanmedian", "per member over all elements"},
    {"aten::embedding_bag", "per member with scale_grad_by_freq"},
    {"aten::quantile", "per member with a q of each member's own"},
    {"aten::nanquantile", "per member with a q of each member's own"},
    {"aten::multi_margin_loss", "per member with a weight of each member's own"},
    {"aten::linalg_qr", "per member in mode 'r'"},
    {"aten::linalg_lu", "per member without pivots"},
    {"aten::lu_unpack", "per member where a result is left out"},
};

bool touchesTensors(const c10::FunctionSchema& schema) {
  const auto isTensor = [](const c10::Argument& a) {
    return a.type()->isSubtypeOf(*c10::TensorType::get()) ||
           a.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  return std::ranges::any_of(schema.arguments(), isTensor) &&
         std::ranges::any_of(schema.returns(), isTensor);
}

bool isPlain(const c10::FunctionSchema& schema) {
  const std::string& name = schema.name();
  if (name.back() == '_' || schema.is_mutable()) return false;
  return schema.overload_name() != "out" && touchesTensors(schema);
}

/// Another name's own op, as the pass normalize-aliases sees it; "" where the name is the op's own.
std::string aliasOf(const c10::FunctionSchema& schema) {
  const auto graph = std::make_shared<Graph>();
  std::vector<Value*> inputs;
  for (const c10::Argument& a : schema.arguments())
    inputs.push_back(graph->addInput()->setType(a.type()));
  const auto kind = c10::Symbol::fromQualString(schema.name());
  Node* node = graph->insertNode(graph->create(kind, inputs, schema.returns().size()));
  for (size_t i = 0; i < schema.returns().size(); ++i)
    graph->registerOutput(node->outputs()[i]->setType(schema.returns()[i].type()));
  torch::jit::NormalizeOps(graph);
  const Node* made = graph->outputs().empty() ? nullptr : graph->outputs()[0]->node();
  return made == nullptr || made->kind() == kind ? "" : made->kind().toUnqualString();
}

struct Row {
  std::string what;  ///< "batched", "per member", "refused"
  std::string family;
  std::string note;
};

std::map<std::string, Row> rows() {
  std::map<std::string, Row> table;
  for (const auto& op : torch::jit::getAllOperators()) {
    const c10::FunctionSchema& schema = op->schema();
    const std::string& name = schema.name();
    if (!name.starts_with("aten::") || !isAllowedOperator(name) || !isPlain(schema)) continue;
    if (table.count(name) || findRule(name)) continue;
    const std::string alias = aliasOf(schema);
    const auto refused = kRefused.find(name);
    if (refused != kRefused.end()) {
      table[name] = {"refused", "", refused->second};
    } else if (!alias.empty()) {
      table[name] = {"batched", "", "as " + alias};
    } else {
      table[name] = {"per member", "", ""};
    }
  }
  for (const RuleRow& row : allRules()) {
    const auto note = kNotes.find(row.op);
    table[row.op] = {"batched", row.family, note == kNotes.end() ? "" : note->second};
  }
  for (const char* name : {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                           "conv_transpose3d", "_convolution", "_convolution_mode"}) {
    table["aten::" + std::string(name)] = {"batched", "", "as convolution"};
  }
  return table;
}

}  // namespace

std::string opsTableText() {
  std::string text;
  for (const auto& [name, row] : rows()) {
    text += name + std::string(name.size() < 44 ? 44 - name.size() : 1, ' ') + row.what;
    if (!row.family.empty()) text += ", " + row.family;
    if (!row.note.empty()) text += " (" + row.note + ")";
    text += "\n";
  }
  return text;
}

std::string opsTableMarkdown() {
  const std::map<std::string, Row> table = rows();
  std::map<std::string, size_t> counts;
  for (const auto& [name, row] : table) ++counts[row.what];
  std::string text =
      "# Operators\n\nPrinted by `chorus-opt --ops --markdown`: what becomes of an operator where "
      "an "
      "operand is stacked.\n*Batched*: ordinary operators compute it for all members at once, by a "
      "rule of the family that is\nnamed (`lib/batching/families.h`). *Per member*: once per "
      "member "
      "in a loop over K, and `chorus-fuse --plan`\nlists it. *Refused*: a message names the "
      "operator "
      "and its place. Operators of which every operand is\nshared run once, as they are; in-place "
      "forms are as their functions. How these were judged:\n`test/conformance/opinfo.py`.\n\n";
  text += std::to_string(counts["batched"]) + " batched, " + std::to_string(counts["per member"]) +
          " per member, " + std::to_string(counts["refused"]) +
          " refused.\n\n| operator | | family | |\n|---|---|---|---|\n";
  for (const auto& [name, row] : table) {
    text += "| `" + name.substr(name.find("::") + 2) + "` | " + row.what + " | " + row.family +
            " | " + row.note + " |\n";
  }
  return text;
}

}  // namespace chorus
