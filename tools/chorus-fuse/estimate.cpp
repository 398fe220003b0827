#include "tools/chorus-fuse/estimate.h"

#include <unordered_set>

#include "lib/support/choice.h"
#include "runtime/step_memory.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

const c10::TensorType* tensorType(const Value* value) {
  return value->type()->castRaw<c10::TensorType>();
}

/// Sizes of a member's tensor with `rows` in place of N; empty where the rank is not known.
std::vector<int64_t> sizesOf(const Value* value, int64_t rows) {
  std::vector<int64_t> sizes;
  const auto* type = tensorType(value);
  if (type == nullptr || !type->dim()) return sizes;
  for (size_t d = 0; d < *type->dim(); ++d) sizes.push_back(type->sizes()[d].value_or(rows));
  return sizes;
}

double numelOf(const Value* value, int64_t rows) {
  double numel = tensorType(value) == nullptr ? 0 : 1;
  for (const int64_t size : sizesOf(value, rows)) numel *= static_cast<double>(size);
  return numel;
}

double bytesOf(const Value* value, int64_t rows) {
  const auto* type = tensorType(value);
  const auto dtype = type ? type->scalarType() : std::nullopt;
  return numelOf(value, rows) * static_cast<double>(dtype ? c10::elementSize(*dtype) : 4);
}

bool isOneOf(const Node* node, const std::set<std::string>& names) {
  return names.contains(node->kind().toUnqualString());
}

/// The result lies in the operand's memory.
bool isView(const Node* node) {
  static const std::set<std::string> names = {
      "view",   "reshape", "flatten", "unflatten", "transpose", "permute",   "t",
      "select", "slice",   "squeeze", "unsqueeze", "expand",    "expand_as", "detach",
      "alias",  "chunk",   "narrow",  "movedim",   "unbind",    "split",     "contiguous"};
  return isOneOf(node, names);
}

/// Backward needs the result.
bool keepsResult(const Node* node) {
  static const std::set<std::string> names = {"relu",        "tanh", "sigmoid", "softmax",
                                              "log_softmax", "exp",  "sqrt",    "rsqrt"};
  return isOneOf(node, names);
}

/// Backward needs no operand.
bool keepsNoOperand(const Node* node) {
  static const std::set<std::string> names = {"add",       "sub",    "rsub",  "sum",
                                              "mean",      "cat",    "stack", "constant_pad_nd",
                                              "embedding", "dropout"};
  return keepsResult(node) || isView(node) || isOneOf(node, names) || node->kind().is_prim();
}

/// Of a recurrent layer: each weight matrix once per step and row.
double recurrentFlops(const Node* node, int64_t rows) {
  const std::vector<int64_t> input = sizesOf(node->input(0), rows);
  double numel = 0;
  for (const Value* operand : node->inputs()) {
    if (operand->node()->kind() != c10::prim::ListConstruct) continue;
    for (const Value* weight : operand->node()->inputs()) {
      if (weight->type()->castRaw<c10::TensorType>() && sizesOf(weight, rows).size() == 2)
        numel += numelOf(weight, rows);
    }
  }
  return input.size() < 2 ? 0 : 2 * numel * static_cast<double>(input[0] * input[1]);
}

double flopsOf(const Node* node, int64_t rows) {
  static const std::set<std::string> recurrent = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  if (isOneOf(node, recurrent)) return recurrentFlops(node, rows);
  const double out = node->outputs().empty() ? 0 : numelOf(node->output(0), rows);
  const auto inner = [&](size_t operand, size_t from_end) {
    const std::vector<int64_t> sizes = sizesOf(node->input(operand), rows);
    return sizes.size() < from_end ? 1.0 : static_cast<double>(sizes[sizes.size() - from_end]);
  };
  const std::string op = node->kind().toUnqualString();
  if (op == "linear") return 2 * out * inner(1, 1);
  if (op == "matmul" || op == "mm" || op == "bmm") return 2 * out * inner(0, 1);
  if (op == "addmm" || op == "baddbmm") return 2 * out * inner(1, 1);
  if (op == "scaled_dot_product_attention") {  // q k^T, then the rows' means of v
    const std::vector<int64_t> keys = sizesOf(node->input(1), rows);
    const double n_keys = keys.size() < 2 ? 1.0 : static_cast<double>(keys[keys.size() - 2]);
    return 2 * (numelOf(node->input(0), rows) + out) * n_keys;
  }
  if (op == "convolution") {  // each output reads weight.numel / its own channels
    const double weight = numelOf(node->input(1), rows);
    const std::vector<int64_t> sizes = sizesOf(node->input(1), rows);
    return 2 * out * weight /
           static_cast<double>(sizes.empty() ? 1 : std::max<int64_t>(sizes[0], 1));
  }
  return node->kind().is_prim() || isView(node) ? 0 : out;
}

/// Walks the train graph: what is stacked, what has a gradient, what is kept.
class Walk {
 public:
  Walk(const FusedModel& model, Estimate& into) : model_(model), into_(into) {
    const CanonicalGraph& train = model.prototype.train;
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      if (model.stacked[i]) stacked_.insert(train.slotInput(i));
    }
    for (const size_t slot : trainableSlots(model)) graded_.insert(train.slotInput(slot));
  }

  void run() {
    double flops = 0, bytes = 0;
    visit(*model_.prototype.train.graph->block(), model_.k(), flops, bytes);
    into_.forward_flops = flops;
    into_.activation_bytes = static_cast<int64_t>(bytes);
  }

 private:
  void visit(const torch::jit::Block& block, size_t members, double& flops, double& bytes) {
    for (const Node* node : block.nodes()) {
      if (isChoice(node)) {
        visitChoice(node, flops, bytes);
        continue;
      }
      if (!node->blocks().empty()) continue;
      const bool stacked = reads(node, stacked_), graded = reads(node, graded_);
      const double k = stacked ? static_cast<double>(members) : 1;
      flops += k * flopsOf(node, into_.rows);
      for (const Value* output : node->outputs()) {
        if (stacked) stacked_.insert(output);
        if (graded) graded_.insert(output);
      }
      if (graded) bytes += k * keptBytes(node);
    }
  }

  /// Each variant's ops for its own members.
  void visitChoice(const Node* node, double& flops, double& bytes) {
    for (const Value* output : node->outputs()) {
      stacked_.insert(output);
      graded_.insert(output);
    }
    for (size_t v = 0; v < node->blocks().size(); ++v) {
      const auto members = std::ranges::count_if(
          model_.partial, [v](const PartialMember& one) { return one.variant == v; });
      visit(*node->blocks()[v], static_cast<size_t>(members), flops, bytes);
    }
  }

  static bool reads(const Node* node, const std::unordered_set<const Value*>& values) {
    return std::ranges::any_of(node->inputs(), [&](const Value* v) { return values.contains(v); });
  }

  /// The memory of the value, through views.
  static const Value* memoryOf(const Value* value) {
    while (isView(value->node()) && !value->node()->inputs().empty())
      value = value->node()->input(0);
    return value;
  }

  double keep(const Value* value) {
    const Value* memory = memoryOf(value);
    const bool tensor = memory->node()->kind() != c10::prim::Param && tensorType(memory);
    return tensor && kept_.insert(memory).second ? bytesOf(memory, into_.rows) : 0;
  }

  double keptBytes(const Node* node) {
    double bytes = 0;
    if (keepsResult(node)) bytes += keep(node->output(0));
    if (std::string(node->kind().toUnqualString()) == "dropout")
      bytes += bytesOf(node->output(0), into_.rows);
    if (keepsNoOperand(node)) return bytes;
    for (const Value* input : node->inputs()) bytes += keep(input);
    return bytes;
  }

  const FusedModel& model_;
  Estimate& into_;
  std::unordered_set<const Value*> stacked_, graded_, kept_;
};

double mega(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

Estimate estimate(const FusedModel& model, int64_t rows) {
  Estimate result;
  result.rows = rows;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.prototype.slots[i].role == Role::Parameter)
      result.parameters += model.tensors[i].numel();
    result.tensor_bytes += static_cast<int64_t>(model.tensors[i].nbytes());
  }
  for (const size_t slot : trainableSlots(model)) {
    result.gradient_bytes += static_cast<int64_t>(model.tensors[slot].nbytes());
  }
  for (const auto& [name, tensor] : model.state) {
    result.state_bytes += static_cast<int64_t>(tensor.nbytes());
  }
  Walk(model, result).run();
  const double flops =
      result.forward_flops /
      static_cast<double>(model.k() * static_cast<size_t>(std::max<int64_t>(rows, 1)));
  if (const std::optional<int64_t> bytes = stepBytes(model, rows, flops)) {
    result.activation_bytes = std::max<int64_t>(0, *bytes - result.gradient_bytes);
    result.tried = true;
  }
  return result;
}

nlohmann::json toJson(const Estimate& estimate) {
  return {{"rows", estimate.rows},
          {"forward_flops", estimate.forward_flops},
          {"tensor_bytes", estimate.tensor_bytes},
          {"gradient_bytes", estimate.gradient_bytes},
          {"optimizer_bytes", estimate.state_bytes},
          {"activation_bytes", estimate.activation_bytes},
          {"tried", estimate.tried},
          {"peak_bytes", estimate.peakBytes()}};
}

std::string toText(const Estimate& estimate) {
  const auto megabytes = [](int64_t bytes) { return numberText(mega(bytes), 3) + " MB"; };
  return "a step of " + std::to_string(estimate.rows) +
         " rows, estimated: " + numberText(estimate.forward_flops / 1e6, 3) + " MFLOP forward, " +
         megabytes(estimate.peakBytes()) + " (tensors " + megabytes(estimate.tensor_bytes) +
         ", gradients " + megabytes(estimate.gradient_bytes) + ", optimizer " +
         megabytes(estimate.state_bytes) + ", activations " + megabytes(estimate.activation_bytes) +
         ")\n";
}

}  // namespace chorus
