#include "runtime/comparison.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "lib/export/alone.h"
#include "lib/export/state.h"
#include "lib/losses/scripted.h"
#include "runtime/solo_optimizer.h"

namespace chorus {
namespace {

constexpr uint64_t kSeed = 20250301;
constexpr int64_t kRows = 4;

FusedModel copyOf(const FusedModel& model, std::optional<at::ScalarType> dtype) {
  FusedModel copy = model;
  for (at::Tensor& tensor : copy.tensors) {
    const bool floating = at::isFloatingType(tensor.scalar_type());
    const bool grad = tensor.requires_grad();
    tensor = tensor.detach().to(dtype && floating ? *dtype : tensor.scalar_type(), false, true);
    tensor.requires_grad_(grad);
  }
  copy.active = model.active.clone();
  copy.step = model.step.clone();
  copy.state.clear();
  copy.optimizer.reset();
  if (copy.loss && dtype) {
    for (auto& [name, tensor] : copy.loss->tensors) {
      if (at::isFloatingType(tensor.scalar_type())) tensor = tensor.to(*dtype);
    }
  }
  return copy;
}

size_t bytesPerMember(const FusedModel& model) {
  size_t bytes = 1;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.stacked[i]) bytes += model.tensors[i].nbytes();
  }
  return bytes / model.k() + 1;
}

double relativeDifference(const at::Tensor& a, const at::Tensor& b, double atol) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const double plain = (x - y).abs_().max().item<double>();
  if (std::isfinite(plain)) {  // so are both
    return plain <= atol ? 0 : plain / std::max(y.abs().max().item<double>(), 1e-300);
  }
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
  const at::Tensor gap = at::where(same, at::zeros_like(x), (x - y).abs());
  const double scale = at::where(y.isfinite(), y.abs(), at::zeros_like(y)).max().item<double>();
  const double most = gap.max().item<double>();
  if (std::isnan(most)) return std::numeric_limits<double>::infinity();
  return most <= atol ? 0 : most / std::max(scale, 1e-300);
}

at::Tensor sliceOf(const at::Tensor& stacked, size_t k) {
  return stacked.select(0, static_cast<int64_t>(k));
}

/// Gradients [K,...] that may be written: each has memory of its own. `parameters`: their sizes.
std::vector<at::Tensor> writable(std::vector<at::Tensor> gradients,
                                 const std::vector<at::Tensor>& parameters) {
  for (size_t j = 0; j < gradients.size(); ++j) {
    at::Tensor& g = gradients[j];
    if (g.sizes() != parameters[j].sizes()) {  // none: the loss does not reach it
      g = at::zeros_like(parameters[j].detach());
    } else if (!g.is_contiguous() || g.use_count() > 1 || g.storage().use_count() > 1) {
      g = g.clone(at::MemoryFormat::Contiguous);
    }
  }
  return gradients;
}

}  // namespace

Comparison::Comparison(const FusedModel& model, const std::vector<Member>& members,
                       const VerifyOptions& options, std::optional<at::ScalarType> dtype,
                       double atol)
    : members_(members),
      options_(options),
      dtype_(dtype),
      atol_(atol),
      model_(copyOf(model, dtype)),
      optimizer_(model.optimizer),
      together_(std::min(model.k(),
                         std::max<size_t>(1, options.bytes_together / bytesPerMember(model_)))),
      trained_(trainableSlots(model_)),
      fused_(together_ == model.k() || options.steps > 1 ? withOptimizer({0, model.k()}) : model_,
             kSeed),
      examples_(model_, dtype, kSeed),
      example_(Examples::cast(options.example, dtype)),
      loss_(model.loss ? losses::scriptedModule(*model.loss) : std::nullopt),
      solos_(model.k()),
      updates_(model.k()) {
  if (options.steps > 1) together_ = model.k();
  if (loss_ && dtype) loss_->to(*dtype);
  fused_.random().one_node = true;
}

Difference Comparison::run(bool evaluates, bool trains) {
  std::optional<Evaluated> evaluated;
  if (evaluates) evaluated = evaluateFused();
  for (int64_t i = 0; trains && i < options_.steps; ++i) {
    trainOnce(evaluated && i == 0 ? &*evaluated : nullptr);
    for (int64_t& step : fused_.random().steps) ++step;
  }
  for (const Range& range : ranges(trains || !evaluated ? 0 : together_)) {
    evaluateSolos(*evaluated, range);
    release(range);
  }
  return worst_;
}

Batch Comparison::nextBatch() {
  if (!example_.inputs.empty()) return example_;
  return examples_.next(model_.prototype.fixed_batch.value_or(kRows));
}

Comparison::Evaluated Comparison::evaluateFused() {
  Evaluated evaluated;
  evaluated.batch = nextBatch();
  fused_.eval();
  evaluated.outputs = fused_.outputs(evaluated.batch);
  evaluated.tensors = untrained();
  for (at::Tensor& tensor : evaluated.tensors) {
    if (tensor.defined()) tensor = tensor.clone();
  }
  return evaluated;
}

void Comparison::evaluateSolos(const Evaluated& evaluated, const Range& range) {
  const at::NoGradGuard no_grad;
  compareOutputs(evaluated.outputs, soloOutputs(evaluated.batch, false, range), range);
  compareTensors(evaluated.tensors, range);
}

void Comparison::trainOnce(const Evaluated* evaluated) {
  const Batch batch = nextBatch();
  fused_.train();
  if (!model_.loss || trained_.empty()) return forwardOnce(batch, evaluated);
  StepResult fused = fused_.step(batch);
  fused_.apply(fused.updates);
  fused.updates.clear();
  std::vector<at::Tensor> parameters;
  for (const size_t slot : trained_) parameters.push_back(model_.tensors[slot]);
  std::vector<at::Tensor> gradients = writable(std::move(fused.gradients), parameters);
  for (const Range& range : ranges(together_)) {
    if (evaluated) evaluateSolos(*evaluated, range);
    trainSolos(batch, fused, gradients, range);
    release(range);
  }
  if (optimizer_) update(gradients);
}

void Comparison::forwardOnce(const Batch& batch, const Evaluated* evaluated) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> outputs = fused_.outputs(batch);
  for (const Range& range : ranges(together_)) {
    if (evaluated) evaluateSolos(*evaluated, range);
    compareOutputs(outputs, soloOutputs(batch, true, range), range);
    compareTensors(untrained(), range);
    release(range);
  }
}

/// Compares the range's gradients and then writes those of the members' own code over `gradients`.
/// A parameter that the fused model leaves alone has none there either, unless it is shared and so
/// was frozen on request.
void Comparison::trainSolos(const Batch& batch, const StepResult& fused,
                            std::vector<at::Tensor>& gradients, const Range& range) {
  const Columns outputs = soloOutputs(batch, true, range);
  compareOutputs(fused.outputs, outputs, range);
  const at::Tensor losses = soloLosses(outputs, fused, batch, range);
  struct Leaf {
    size_t k, slot;
    std::optional<size_t> trained;  ///< index among the gradients
  };
  std::vector<Leaf> leaves;
  std::vector<at::Tensor> tensors;
  for (size_t k = range.begin; k < range.end; ++k) {
    for (size_t slot = 0; slot < model_.tensors.size(); ++slot) {
      const auto found = std::find(trained_.begin(), trained_.end(), slot);
      const auto own = ownIndex(k, slot);
      if (!own) continue;
      const at::Tensor& tensor = solo(k).tensors().at(*own);
      const bool trains = found != trained_.end();
      const bool left = model_.prototype.slots[slot].requires_grad && tensor.requires_grad();
      if (!trains && !left) continue;
      const auto index = static_cast<size_t>(found - trained_.begin());
      leaves.push_back({k, slot, trains ? std::optional(index) : std::nullopt});
      tensors.push_back(tensor);
    }
  }
  const auto found = torch::autograd::grad({losses.sum()}, tensors, {}, false, false, true);
  const at::NoGradGuard no_grad;
  for (size_t k = range.begin; k < range.end; ++k)
    note(k, "loss", sliceOf(fused.losses, k), losses[static_cast<int64_t>(k)]);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& [k, slot, trained] = leaves[i];
    const at::Tensor& mine = found[i];
    const std::string what = "gradient of " + nameOf(k, slot);
    const at::Tensor fused_part = trained ? partOf(gradients[*trained], k, slot) : at::Tensor();
    if (mine.defined()) note(k, what, trained ? fused_part : at::zeros_like(mine), mine);
    if (trained && mine.defined()) fused_part.copy_(mine);
    if (trained && !mine.defined()) fused_part.zero_();
  }
  compareTensors(untrained(), range);
}

/// Both sides get the solo gradients, so that their rounding (compared above) is not amplified:
/// the fused update, and LibTorch's own optimizers. A large model is updated by a few members at a
/// time, of which the fused update holds several copies: never one alone.
void Comparison::update(const std::vector<at::Tensor>& gradients) {
  const at::NoGradGuard no_grad;
  const bool whole = together_ == model_.k();
  for (const Range& range : ranges(whole ? together_ : std::max<size_t>(2, together_))) {
    std::optional<Executor> part;
    if (!whole) part.emplace(withOptimizer(range), kSeed);
    const auto begin = static_cast<int64_t>(range.begin);
    const auto count = static_cast<int64_t>(range.end - range.begin);
    std::vector<at::Tensor> narrowed;
    for (const at::Tensor& g : gradients) narrowed.push_back(g.narrow(0, begin, count));
    (part ? *part : fused_).update(narrowed);
    part.reset();
    for (size_t k = range.begin; k < range.end; ++k) updateSolo(k, gradients);
  }
}

void Comparison::updateSolo(size_t k, const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> parameters;
  std::vector<size_t> slots;
  for (size_t j = 0; j < trained_.size(); ++j) {
    const auto own = ownIndex(k, trained_[j]);
    if (!own) continue;
    slots.push_back(trained_[j]);
    parameters.push_back(soloParameter(k, trained_[j], *own));
    parameters.back().mutable_grad() = partOf(gradients[j], k, trained_[j]).clone();
  }
  if (!updates_[k]) updates_[k] = soloOptimizer(*optimizer_, k, parameters);
  {
    const at::AutoGradMode grad(true);
    updates_[k]->step();
  }
  for (size_t j = 0; j < parameters.size(); ++j)
    note(k, nameOf(k, slots[j]), partOf(model_.tensors[slots[j]], k, slots[j]), parameters[j]);
  if (!solos_[k]) updates_[k].reset();
}

std::vector<Comparison::Range> Comparison::ranges(size_t count) const {
  std::vector<Range> found;
  for (size_t k = 0; count > 0 && k < model_.k(); k += count)
    found.push_back({k, std::min(model_.k(), k + count)});
  return found;
}

SoloMember& Comparison::solo(size_t k) {
  if (!solos_[k]) solos_[k] = std::make_unique<SoloMember>(members_[k], dtype_);
  return *solos_[k];
}

void Comparison::release(const Range& range) {
  if (options_.steps > 1) return;
  for (size_t k = range.begin; k < range.end; ++k) solos_[k].reset();
}

RandomContext Comparison::soloRandom(size_t k) {
  RandomContext one;
  one.run_seed = kSeed;
  one.member_seeds = {model_.member_seeds[k]};
  one.steps = {fused_.random().steps[k]};
  one.one_node = true;
  return one;
}

Comparison::Columns Comparison::soloOutputs(const Batch& batch, bool training, const Range& range) {
  Columns outputs;
  for (size_t k = range.begin; k < range.end; ++k)
    outputs.push_back(solo(k).forward(batch.inputs, training, soloRandom(k)));
  return outputs;
}

/// [K]. The loss of the fused model reads the range's own outputs, beside the fused ones of the
/// other members; one that the user wrote is run as it is, member by member.
at::Tensor Comparison::soloLosses(const Columns& solo, const StepResult& fused, const Batch& batch,
                                  const Range& range) {
  const auto begin = static_cast<int64_t>(range.begin), end = static_cast<int64_t>(range.end);
  const auto between = [&](const at::Tensor& all, const std::vector<at::Tensor>& own) {
    const auto after = static_cast<int64_t>(model_.k()) - end;
    if (begin == 0 && after == 0) return at::stack(own);
    return at::cat({all.narrow(0, 0, begin), at::stack(own), all.narrow(0, end, after)});
  };
  if (!loss_) {
    std::vector<at::Tensor> stacked;
    for (size_t i = 0; i < fused.outputs.size(); ++i) {
      std::vector<at::Tensor> column;
      for (const auto& outputs : solo) column.push_back(outputs.at(i));
      stacked.push_back(between(fused.outputs[i], column));
    }
    return fused_.lossWithGradient(stacked, batch);
  }
  std::vector<at::Tensor> losses;
  for (const std::vector<at::Tensor>& outputs : solo) {
    std::vector<torch::jit::IValue> arguments(outputs.begin(), outputs.end());
    arguments.emplace_back(batch.target);
    losses.push_back(loss_->forward(arguments).toTensor());
  }
  return between(fused.losses.detach(), losses);
}

/// A parameter that training moves: that of the member's own code where it still lives.
at::Tensor Comparison::soloParameter(size_t k, size_t slot, size_t own) {
  if (solos_[k]) return solos_[k]->tensors().at(own);
  const at::Tensor& value = members_[k].slots[own].value;
  return value.detach().to(model_.tensors[slot].scalar_type(), false, true).requires_grad_();
}

std::optional<size_t> Comparison::ownIndex(size_t k, size_t slot) const {
  if (model_.partial.empty()) return slot;
  const std::vector<OwnTensor>& tensors = model_.partial[k].tensors;
  const auto found = std::ranges::find(tensors, slot, &OwnTensor::in);
  if (found == tensors.end()) return std::nullopt;
  return static_cast<size_t>(found - tensors.begin());
}

at::Tensor Comparison::partOf(const at::Tensor& values, size_t k, size_t slot) const {
  if (model_.partial.empty()) return sliceOf(values, k);
  return ownTensor(model_, k, model_.partial[k].tensors[*ownIndex(k, slot)], values);
}

/// Members of the model, in its own memory, with fresh optimizer state.
FusedModel Comparison::withOptimizer(const Range& range) const {
  FusedModel model = model_;
  model.optimizer = optimizer_;
  const size_t count = range.end - range.begin;
  if (count != model.k()) model = viewMembers(model, range.begin, count);
  resetState(model);
  return model;
}

void Comparison::note(size_t k, const std::string& what, const at::Tensor& fused,
                      const at::Tensor& solo) {
  const double relative = relativeDifference(fused, solo, atol_);
  if (relative <= worst_.relative) return;
  worst_ = {relative, "member " + std::to_string(k) + " (" + members_[k].path + "), " + what};
}

void Comparison::compareOutputs(const std::vector<at::Tensor>& fused, const Columns& solo,
                                const Range& range) {
  const at::NoGradGuard no_grad;
  for (size_t k = range.begin; k < range.end; ++k) {
    for (size_t i = 0; i < fused.size(); ++i)
      note(k, "output " + std::to_string(i), sliceOf(fused[i], k), solo[k - range.begin].at(i));
  }
}

void Comparison::compareTensors(const std::vector<at::Tensor>& fused, const Range& range) {
  for (size_t i = 0; i < fused.size(); ++i) {
    for (size_t k = range.begin; fused[i].defined() && k < range.end; ++k) {
      const auto own = ownIndex(k, i);
      if (!own || !solo(k).tensors().at(*own).defined()) continue;
      note(k, nameOf(k, i), partOf(fused[i], k, i), solo(k).tensors()[*own]);
    }
  }
}

std::string Comparison::nameOf(size_t k, size_t slot) const {
  const TensorSlot& named = model_.partial.empty()
                                ? model_.prototype.slots[slot]
                                : model_.partial[k].tensors[*ownIndex(k, slot)].slot;
  return (named.role == Role::Parameter ? "parameter '" : "buffer '") + named.name + "'";
}

/// Stacked tensors that no optimizer moves, per slot.
std::vector<at::Tensor> Comparison::untrained() const {
  std::vector<at::Tensor> tensors(model_.tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool trains = std::count(trained_.begin(), trained_.end(), i) > 0;
    if (model_.stacked[i] && !trains) tensors[i] = model_.tensors[i];
  }
  return tensors;
}

}  // namespace chorus
