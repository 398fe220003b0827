// Graphs that are in canonical form already: read again from a fused file, or run at another batch
// size.
#include "chorus/import.h"
#include "chorus/pass.h"
#include "lib/import/example_run.h"
#include "lib/import/specialize.h"

namespace chorus {

CanonicalGraph recanonicalise(std::shared_ptr<Graph> graph, const std::vector<InputSpec>& inputs,
                              std::vector<TensorSlot> slots, bool training, int64_t example_batch) {
  // A method's own first input: nothing reads it.
  if (!graph->inputs().empty() && graph->inputs()[0]->type()->cast<c10::ClassType>())
    graph->eraseInput(0);
  SpecializeRequest request;
  request.inputs = inputs;
  request.slots = std::move(slots);
  request.mode.training = training;
  request.mode.as_traced = true;
  request.first_n = example_batch;
  request.second_n = 3 * request.first_n;
  Specialized made;
  try {
    made = specialize(*graph, nullptr, request);
  } catch (const BatchSizeFixed&) {
    request.second_n = request.first_n;
    made = specialize(*graph, nullptr, request);
  }
  runPasses(made.canonical.graph, canonicalPipeline());
  return made.canonical;
}

namespace {

/// An example of what a branch or loop gives, by its type: which way it goes is not known here.
c10::IValue exampleOfType(const Value* value, int64_t n) {
  const auto type = value->type()->cast<c10::TensorType>();
  if (!type)
    return value->type()->kind() == c10::TypeKind::FloatType ? c10::IValue(1.0)
                                                             : c10::IValue(int64_t{1});
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < *type->dim(); ++d) sizes.push_back(type->sizes()[d].value_or(n));
  return at::empty(sizes, at::TensorOptions(*type->scalarType()).device(at::kMeta));
}

}  // namespace

std::vector<std::vector<int64_t>> checkBatchSize(const Member& member,
                                                 const CanonicalGraph& canonical, int64_t n) {
  std::unordered_map<const Value*, c10::IValue> values;
  const auto inputs = canonical.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < canonical.n_inputs) {
      values[inputs[i]] = exampleOf(member.inputs[i], n);
      continue;
    }
    TensorSlot slot = member.slots.at(i - canonical.n_inputs);
    const auto type = inputs[i]->type()->expect<c10::TensorType>();
    if (slot.role == Role::Constant && slot.value.defined()) {
      // In a fused model it has a row per member: of rank 1, it would take part in type promotion.
      if (slot.value.dim() > static_cast<int64_t>(*type->dim()))
        slot.value = slot.value.select(0, 0);
      values[inputs[i]] = exampleOf(slot);
      continue;
    }
    values[inputs[i]] = at::empty(*type->sizes().concrete_sizes(),
                                  at::TensorOptions(*type->scalarType()).device(at::kMeta));
  }
  bool guessed = false;
  for (const Node* node : canonical.graph->nodes()) {
    if (!node->blocks().empty()) guessed = true;
    if (guessed && node->kind() != c10::prim::Constant) {
      for (const Value* output : node->outputs()) values[output] = exampleOfType(output, n);
      continue;
    }
    if (node->kind() == c10::prim::Constant) {
      values[node->output()] = torch::jit::toIValue(node->output()).value_or(c10::IValue());
      continue;
    }
    torch::jit::Stack stack;
    for (const Value* input : node->inputs()) stack.push_back(values.at(input));
    if (node->kind() == c10::prim::ListConstruct) {
      c10::impl::GenericList list(
          node->output()->type()->expect<c10::ListType>()->getElementType());
      for (const c10::IValue& item : stack) list.push_back(item);
      values[node->output()] = list;
      continue;
    }
    try {
      if (node->kind() == c10::prim::ListUnpack) {
        stack = stack.at(0).toListRef().vec();
      } else {
        stack = runOnExamples(node, std::move(stack));
      }
    } catch (const std::exception& failure) {
      const bool known = member.fixed_batch && !member.fixed_batch_place.source.empty();
      throw Refused(
          error("the model does not work with a batch of " + std::to_string(n) +
                    " rows: " + failureText(failure),
                known ? member.fixed_batch_place : placeOf(node, member.path))
              .helpWith("export with sizes taken from the input, e.g. x.view(x.size(0), -1)"));
    }
    for (size_t i = 0; i < stack.size(); ++i) values[node->outputs()[i]] = stack[i];
  }
  std::vector<std::vector<int64_t>> sizes;
  for (size_t i = 0; i < canonical.n_outputs; ++i) {
    sizes.push_back(values.at(canonical.graph->outputs()[i]).toTensor().sizes().vec());
  }
  return sizes;
}

}  // namespace chorus
