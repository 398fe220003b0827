// A batch norm without a momentum of its own (None) takes the mean over all batches so far: its
// factor is one over their count. Beside one with a number both are written alike:
//
//   mean' = mean (1 - f) + batch f,  f = a / count + b     None: a = 1, b = 0; m: a = 0, b = m
#include <torch/csrc/jit/ir/constants.h>

#include "chorus/pass.h"
#include "lib/equivalence/unify.h"

namespace chorus::equivalence {
namespace {

constexpr size_t kMean = 3, kVariance = 4, kMomentum = 6;  // operands

/// A batch norm of the train graph and the updates that it has a part in.
struct Norm {
  Node* node = nullptr;
  size_t mean = 0, variance = 0;   ///< places in CanonicalGraph::updates
  Value* count = nullptr;          ///< the number of batches, this one included
  std::optional<double> momentum;  ///< none: one over the count
};

bool is(const Value* value, const char* op) {
  return value->node()->kind() == c10::Symbol::fromQualString(op);
}

Value* throughCasts(Value* value) {
  while (is(value, "aten::to") || is(value, "aten::full_like"))
    value = value->node()->input(is(value, "aten::to") ? 0 : 1);
  return value;
}

bool isNumber(const Value* value, double number) {
  const auto known = torch::jit::toIValue(value);
  return known && known->isScalar() && known->toScalar().toDouble() == number;
}

/// old (1 - 1/count) + batch 1/count
bool isMeanOverBatches(Value* value, const Value* old, const Value* batch, Value* count) {
  if (!is(value, "aten::add") || !isNumber(value->node()->input(2), 1)) return false;
  Value* kept = value->node()->input(0);
  Value* added = value->node()->input(1);
  if (!is(kept, "aten::mul") || !is(added, "aten::mul")) return false;
  if (kept->node()->input(0) != old || added->node()->input(0) != batch) return false;
  Value* factor = added->node()->input(1);
  Value* rest = kept->node()->input(1);
  if (!is(rest, "aten::rsub") || !isNumber(rest->node()->input(1), 1)) return false;
  Value* quotient = throughCasts(factor);
  if (throughCasts(rest->node()->input(0)) != quotient || !is(quotient, "aten::div")) return false;
  return isNumber(throughCasts(quotient->node()->input(0)), 1) &&
         throughCasts(quotient->node()->input(1)) == count;
}

std::optional<size_t> updateOf(const CanonicalGraph& canonical, size_t slot) {
  const auto found = std::ranges::find(canonical.updates, slot);
  if (found == canonical.updates.end()) return std::nullopt;
  return static_cast<size_t>(found - canonical.updates.begin());
}

std::optional<size_t> slotOf(const CanonicalGraph& canonical, const Value* value) {
  if (value->node()->kind() != c10::prim::Param) return std::nullopt;
  if (value->offset() < canonical.n_inputs) return std::nullopt;
  return value->offset() - canonical.n_inputs;
}

/// The counter that stands beside the running mean.
Value* countBeside(const Member& member, size_t mean_slot) {
  const std::string& mean = member.slots[mean_slot].name;
  const size_t dot = mean.rfind('.');
  const std::string name =
      (dot == std::string::npos ? "" : mean.substr(0, dot + 1)) + "num_batches_tracked";
  for (size_t s = 0; s < member.slots.size(); ++s) {
    const auto update = updateOf(member.train, s);
    if (member.slots[s].name != name || !update) continue;
    return member.train.graph->outputs()[member.train.n_outputs + *update];
  }
  return nullptr;
}

std::optional<Norm> normOf(const Member& member, Node* node) {
  const CanonicalGraph& canonical = member.train;
  const auto mean = slotOf(canonical, node->input(kMean));
  const auto variance = slotOf(canonical, node->input(kVariance));
  const auto momentum = torch::jit::toIValue(node->input(kMomentum));
  if (!mean || !variance || !momentum || !momentum->isDouble()) return std::nullopt;
  const auto mean_update = updateOf(canonical, *mean);
  const auto variance_update = updateOf(canonical, *variance);
  Value* count = countBeside(member, *mean);
  if (!mean_update || !variance_update || count == nullptr) return std::nullopt;
  const auto outputs = canonical.graph->outputs();
  Value* new_mean = outputs[canonical.n_outputs + *mean_update];
  Value* new_variance = outputs[canonical.n_outputs + *variance_update];
  Norm norm{node, *mean_update, *variance_update, count, momentum->toDouble()};
  if (new_mean == node->output(3) && new_variance == node->output(4)) return norm;
  norm.momentum.reset();
  const bool over_batches =
      momentum->toDouble() == 1 &&
      isMeanOverBatches(new_mean, node->input(kMean), node->output(3), count) &&
      isMeanOverBatches(new_variance, node->input(kVariance), node->output(4), count);
  if (!over_batches) return std::nullopt;
  return norm;
}

class Writer {
 public:
  Writer(CanonicalGraph& canonical, const Norm& norm)
      : canonical_(canonical), graph_(*canonical.graph), norm_(norm) {}

  void run() {
    const torch::jit::WithInsertPoint at_end(graph_.block());
    Value* count = emit("aten::to", {norm_.count, static_cast<int64_t>(at::kDouble)}, norm_.count,
                        at::kDouble);
    Value* share = emit("aten::reciprocal", {count}, count, at::kDouble);
    const double a = norm_.momentum ? 0 : 1, b = norm_.momentum.value_or(0);
    share = emit("aten::mul", {share, a}, share, at::kDouble);
    share = emit("aten::add", {share, b}, share, at::kDouble);
    move(norm_.mean, norm_.node->input(kMean), norm_.node->output(3), share);
    move(norm_.variance, norm_.node->input(kVariance), norm_.node->output(4), share);
    const torch::jit::WithInsertPoint here(norm_.node);
    norm_.node->replaceInput(kMomentum, graph_.insertConstant(1.0));
  }

 private:
  Value* emit(const char* op, const std::vector<torch::jit::NamedValue>& inputs, const Value* like,
              at::ScalarType dtype) {
    Value* value = graph_.insert(c10::Symbol::fromQualString(op), inputs);
    value->node()->copyMetadata(norm_.node);
    const auto& type = like->type()->expectRef<c10::TensorType>();
    return value->setType(
        c10::TensorType::create(dtype, type.device(), type.symbolic_sizes(), {}, std::nullopt));
  }

  void move(size_t update, Value* old, Value* batch, Value* share) {
    const at::ScalarType dtype = old->type()->expectRef<c10::TensorType>().scalarType().value();
    Value* factor = emit("aten::type_as", {share, batch}, share, dtype);
    Value* added = emit("aten::mul", {batch, factor}, old, dtype);
    Value* kept = emit("aten::rsub", {factor, 1}, factor, dtype);
    kept = emit("aten::mul", {old, kept}, old, dtype);
    Value* moved = emit("aten::add", {kept, added}, old, dtype);
    graph_.return_node()->replaceInput(canonical_.n_outputs + update, moved);
  }

  CanonicalGraph& canonical_;
  Graph& graph_;
  const Norm& norm_;
};

}  // namespace

void unifyMomentum(Member& member) {
  member.train.graph = member.train.graph->copy();
  std::vector<Norm> norms;
  for (Node* node : member.train.graph->nodes()) {
    if (node->kind().toQualString() != std::string("aten::_native_batch_norm_legit_functional"))
      continue;
    if (auto norm = normOf(member, node)) norms.push_back(*norm);
  }
  for (const Norm& norm : norms) Writer(member.train, norm).run();
  runPasses(member.train.graph, canonicalPipeline());
}

}  // namespace chorus::equivalence
