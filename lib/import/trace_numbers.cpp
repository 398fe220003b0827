#include "lib/import/trace_numbers.h"

#include <torch/csrc/jit/ir/constants.h>

#include "chorus/pass.h"

namespace chorus {
namespace {

std::optional<at::ScalarType> dtypeOf(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  return type ? type->scalarType() : std::nullopt;
}

/// Ops with an overload of the same meaning whose second operand is a number.
bool takesNumbers(const Node* node) {
  static const std::set<std::string> ops = {
      "aten::add",          "aten::sub",       "aten::rsub", "aten::mul", "aten::div",
      "aten::floor_divide", "aten::remainder", "aten::fmod", "aten::pow", "aten::eq",
      "aten::ne",           "aten::lt",        "aten::le",   "aten::gt",  "aten::ge"};
  return ops.contains(node->kind().toQualString());
}

bool isComparison(const Node* node) { return dtypeOf(node->output()) == at::kBool; }

struct Numbers {
  const Member& member;
  const CanonicalGraph& canonical;

  /// The slot of a number, if the value is one.
  std::optional<size_t> slotOf(const Value* value) const {
    const bool is_input = value->node() == canonical.graph->param_node();
    if (!is_input || value->offset() < canonical.n_inputs) return std::nullopt;
    const size_t index = value->offset() - canonical.n_inputs;
    const TensorSlot& slot = member.slots.at(index);
    const auto dtype = slot.value.scalar_type();
    const bool number = slot.role == Role::Constant && slot.value.dim() == 0 &&
                        (dtype == at::kDouble || dtype == at::kLong);
    return number ? std::optional(index) : std::nullopt;
  }

  static bool isComputedIn(const Node* node, const Value* x) {
    const auto dtype = dtypeOf(x);
    // Halves too: beside a number they compute in f32, beside its tensor per member in halves.
    const bool floating = dtype && at::isFloatingType(*dtype);
    return floating && (isComparison(node) || dtypeOf(node->output()) == dtype);
  }
};

bool isOne(const Value* value) {
  const auto known = torch::jit::toIValue(value);
  return known && known->isInt() && known->toInt() == 1;
}

/// mul(0.3, x) and add(0.3, x): the number goes second.
void numberSecond(Node* node, const Numbers& numbers) {
  const std::string op = node->kind().toQualString();
  const bool commutes = op == "aten::mul" ||
                        (op == "aten::add" && node->inputs().size() == 3 && isOne(node->input(2)));
  if (!commutes || !numbers.slotOf(node->input(0)) || numbers.slotOf(node->input(1))) return;
  Value* number = node->input(0);
  node->replaceInput(0, node->input(1));
  node->replaceInput(1, number);
}

void rewrite(const Member& member, CanonicalGraph& canonical, std::set<size_t>& read) {
  const Numbers numbers{member, canonical};
  for (Node* node : canonical.graph->nodes()) {
    if (!takesNumbers(node) || node->inputs().size() < 2) continue;
    numberSecond(node, numbers);
    const auto slot = numbers.slotOf(node->input(1));
    if (!slot || !Numbers::isComputedIn(node, node->input(0))) continue;
    const at::Scalar number = member.slots[*slot].value.item();
    const torch::jit::WithInsertPoint here(node);
    node->replaceInput(1, canonical.graph->insertConstant(c10::IValue(number)));
    read.insert(*slot);
  }
}

bool isUnread(const CanonicalGraph& canonical, size_t slot) {
  return !canonical.slotInput(slot)->hasUses();
}

}  // namespace

void writeTraceNumbers(Member& member) {
  std::set<size_t> read;
  rewrite(member, member.train, read);
  rewrite(member, member.eval, read);
  if (read.empty()) return;
  for (auto slot = read.rbegin(); slot != read.rend(); ++slot) {
    if (!isUnread(member.train, *slot) || !isUnread(member.eval, *slot)) continue;
    for (CanonicalGraph* canonical : {&member.train, &member.eval}) {
      canonical->graph->eraseInput(canonical->n_inputs + *slot);
      for (size_t& updated : canonical->updates) updated -= updated > *slot;
    }
    member.slots.erase(member.slots.begin() + static_cast<std::ptrdiff_t>(*slot));
  }
  runPasses(member.train.graph, canonicalPipeline());
  runPasses(member.eval.graph, canonicalPipeline());
}

void warnOfTracedAverages(Member& member) {
  if (!member.traced) return;
  for (const Node* node : member.train.graph->nodes()) {
    if (node->kind() != c10::aten::_native_batch_norm_legit_functional) continue;
    const auto momentum = torch::jit::toIValue(node->input(6));
    if (!momentum || !momentum->isDouble() || momentum->toDouble() != 1.0) continue;
    member.remarks.push_back(
        warning("batch_norm replaces its running statistics at every step: its 'momentum' is 1.0 "
                "in the trace",
                placeOf(node, member.path))
            .note("BatchNorm(momentum=None) averages over all batches; a trace keeps the factor of "
                  "the one batch that it saw")
            .helpWith("export it with torch.jit.script"));
    return;
  }
}

}  // namespace chorus
