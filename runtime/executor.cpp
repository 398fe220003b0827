#include "runtime/executor.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include "chorus/diagnostics.h"
#include "lib/export/fused_json.h"
#include "runtime/solo.h"

namespace chorus {
namespace {

/// A member that has an attribute of that name pushes ours behind a prefix.
torch::jit::Function& methodOf(const torch::jit::Module& module, const std::string& name) {
  if (const auto prefixed = module.find_method("chorus_" + name)) return prefixed->function();
  return module.get_method(name).function();
}

}  // namespace

void refuseAssertion(const std::exception& failure) {
  const std::string what = failure.what();
  const std::string mark = "RuntimeError: AssertionError: ";
  const size_t found = what.rfind(mark);
  if (found == std::string::npos) return;
  const size_t begin = found + mark.size();
  throw Refused(error(what.substr(begin, what.find('\n', begin) - begin))
                    .note("an assertion in the code of the network or of the loss fails"));
}

Executor::Executor(const FusedModel& model, uint64_t seed) {
  // A fused graph runs unchanged for thousands of steps and holds nothing that LibTorch's optimiser
  // fuses on its own; its differentiation of subgraphs is slower than autograd's kernels here.
  torch::jit::getProfilingMode() = false;
  torch::jit::setGraphExecutorOptimize(false);
  registerRandomOps();
  BuildOptions options;
  options.counter_based_random = true;
  module_ = buildModule(model, options);
  chorus_ = module_.attr(chorusName(model)).toModule();
  output_ = model.prototype.output;
  random_ = {seed, model.member_seeds, std::vector<int64_t>(model.k(), 0)};
  random_nodes_ = model.random_nodes;
}

void Executor::train() {
  module_.train();
  random_.nodes.clear();
  for (const RandomNodes& nodes : random_nodes_) random_.nodes.push_back(nodes.train);
}

void Executor::eval() {
  module_.eval();
  random_.nodes.clear();
  for (const RandomNodes& nodes : random_nodes_) random_.nodes.push_back(nodes.eval);
}

void Executor::setHyperparameter(const std::string& name, const std::vector<double>& values) {
  const at::NoGradGuard no_grad;
  chorus_.attr(name).toTensor().copy_(at::tensor(values, at::kDouble));
}

void Executor::push(const Batch& batch) {
  stack_.clear();
  stack_.emplace_back(module_._ivalue());
  for (const at::Tensor& input : batch.inputs) stack_.emplace_back(input);
  if (batch.target.defined()) stack_.emplace_back(batch.target);
  for (const at::Tensor& tensor : batch.more) stack_.emplace_back(tensor);
}

StepResult Executor::step(const Batch& batch, const at::Tensor& scale) {
  const RandomScope scope(random_);
  push(batch);
  stack_.emplace_back(scale.defined() ? c10::IValue(scale) : c10::IValue());
  stack_.emplace_back(batch.weight.defined() ? c10::IValue(batch.weight) : c10::IValue());
  methodOf(module_, "chorus_step").run(stack_);
  const auto& result = stack_.back().toTupleRef().elements();
  StepResult step{result[0].toTensor(), result[1].toTensorVector(), result[2].toTensorVector(),
                  result[3].toTensorVector()};
  stack_.clear();
  return step;
}

void Executor::apply(const std::vector<at::Tensor>& updates) {
  if (updates.empty()) return;
  const at::NoGradGuard no_grad;
  stack_.clear();
  stack_.emplace_back(module_._ivalue());
  stack_.emplace_back(updates);
  methodOf(module_, "chorus_apply").run(stack_);
}

std::pair<at::Tensor, std::vector<at::Tensor>> Executor::gradients(const Batch& batch) {
  const RandomScope scope(random_);
  push(batch);
  methodOf(module_, "chorus_gradients").run(stack_);
  const auto& result = stack_.back().toTupleRef().elements();
  return {result[0].toTensor().detach(), result[1].toTensorVector()};
}

void Executor::update(const std::vector<at::Tensor>& gradients) {
  stack_.clear();
  stack_.emplace_back(module_._ivalue());
  stack_.emplace_back(gradients);
  methodOf(module_, "chorus_update").run(stack_);
}

std::vector<at::Tensor> Executor::outputs(const Batch& batch) {
  const RandomScope scope(random_);
  const at::NoGradGuard no_grad;
  stack_.clear();
  stack_.emplace_back(module_._ivalue());
  for (const at::Tensor& input : batch.inputs) stack_.emplace_back(input);
  module_.get_method("forward").function().run(stack_);
  std::vector<at::Tensor> tensors;
  flattenResult(stack_.back(), output_, tensors);
  for (at::Tensor& tensor : tensors) {
    if (tensor.dim() == 1 && tensor.numel() == 0)
      tensor = tensor.new_empty({static_cast<int64_t>(random_.member_seeds.size()), 0});
  }
  return tensors;
}

at::Tensor Executor::loss(const std::vector<at::Tensor>& outputs, const Batch& batch) {
  const at::NoGradGuard no_grad;
  return lossWithGradient(outputs, batch);
}

at::Tensor Executor::lossWithGradient(const std::vector<at::Tensor>& outputs, const Batch& batch) {
  stack_.clear();
  stack_.emplace_back(module_._ivalue());
  stack_.emplace_back(outputs);
  stack_.emplace_back(batch.target.defined() ? batch.target : at::empty({0}));
  if (!batch.more.empty()) stack_.emplace_back(batch.more);
  methodOf(module_, "chorus_losses").run(stack_);
  return stack_.back().toTensor();
}

}  // namespace chorus
