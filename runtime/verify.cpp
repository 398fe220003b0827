#include "chorus/verify.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "chorus/dataset.h"
#include "chorus/import.h"
#include "lib/losses/scripted.h"
#include "lib/losses/sums.h"
#include "runtime/examples.h"
#include "runtime/executor.h"
#include "runtime/solo.h"
#include "runtime/solo_optimizer.h"

namespace chorus {
namespace {

constexpr uint64_t kSeed = 20250301;
constexpr int64_t kRows = 4;

struct Difference {
  double relative = 0;
  std::string what;  ///< "member 2 (b.pt), parameter 'fc.weight'"
};

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
  if (copy.loss && dtype) {
    for (auto& [name, tensor] : copy.loss->tensors) {
      if (at::isFloatingType(tensor.scalar_type())) tensor = tensor.to(*dtype);
    }
  }
  resetState(copy);
  return copy;
}

double relativeDifference(const at::Tensor& a, const at::Tensor& b, double atol) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const at::Tensor same = x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));
  const at::Tensor gap = at::where(same, at::zeros_like(x), (x - y).abs());
  const double scale = at::where(y.isfinite(), y.abs(), at::zeros_like(y)).max().item<double>();
  const double most = gap.max().item<double>();
  if (std::isnan(most)) return std::numeric_limits<double>::infinity();
  return most <= atol ? 0 : most / std::max(scale, 1e-300);
}

/// One comparison of fused and solo runs, in one precision.
class Comparison {
 public:
  Comparison(const FusedModel& model, const std::vector<Member>& members,
             std::optional<at::ScalarType> dtype, double atol)
      : model_(copyOf(model, dtype)),
        members_(members),
        fused_(model_, kSeed),
        examples_(model_, dtype, kSeed),
        atol_(atol),
        loss_(model.loss ? losses::scriptedModule(*model.loss) : std::nullopt) {
    if (loss_ && dtype) loss_->to(*dtype);
    fused_.random().one_node = true;
    for (const Member& member : members) solos_.emplace_back(member, dtype);
  }

  Difference train(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      const Batch batch = examples_.next(rows());
      model_.loss ? trainOnce(batch) : forwardOnce(batch, true);
      for (int64_t& step : fused_.random().steps) ++step;
    }
    return worst_;
  }

  Difference evaluate() {
    forwardOnce(examples_.next(rows()), false);
    return worst_;
  }

 private:
  int64_t rows() const { return model_.prototype.fixed_batch.value_or(kRows); }

  RandomContext soloRandom(size_t k) {
    RandomContext one;
    one.run_seed = kSeed;
    one.member_seeds = {model_.member_seeds[k]};
    one.steps = {fused_.random().steps[k]};
    one.one_node = true;
    return one;
  }

  void note(size_t k, const std::string& what, const at::Tensor& fused, const at::Tensor& solo) {
    const double relative = relativeDifference(fused, solo, atol_);
    if (relative <= worst_.relative) return;
    worst_ = {relative, "member " + std::to_string(k) + " (" + members_[k].path + "), " + what};
  }

  std::vector<std::vector<at::Tensor>> soloOutputs(const Batch& batch, bool training) {
    std::vector<std::vector<at::Tensor>> outputs;
    for (size_t k = 0; k < solos_.size(); ++k) {
      outputs.push_back(solos_[k].forward(batch.inputs, training, soloRandom(k)));
    }
    return outputs;
  }

  void compareOutputs(const std::vector<at::Tensor>& fused,
                      const std::vector<std::vector<at::Tensor>>& solo) {
    for (size_t k = 0; k < solo.size(); ++k) {
      for (size_t i = 0; i < fused.size(); ++i) {
        note(k, "output " + std::to_string(i), fused[i].select(0, static_cast<int64_t>(k)),
             solo[k].at(i));
      }
    }
  }

  void compareTensors() {
    for (size_t i = 0; i < model_.tensors.size(); ++i) {
      if (!model_.stacked[i]) continue;
      const TensorSlot& slot = model_.prototype.slots[i];
      const std::string what =
          (slot.role == Role::Parameter ? "parameter '" : "buffer '") + slot.name + "'";
      for (size_t k = 0; k < solos_.size(); ++k) {
        const at::Tensor& solo = solos_[k].tensors().at(i);
        if (solo.defined())
          note(k, what, model_.tensors[i].select(0, static_cast<int64_t>(k)), solo);
      }
    }
  }

  void forwardOnce(const Batch& batch, bool training) {
    training ? fused_.train() : fused_.eval();
    const at::NoGradGuard no_grad;
    compareOutputs(fused_.outputs(batch), soloOutputs(batch, training));
    compareTensors();
  }

  /// The loss of the fused model; one that the user wrote is run as it is, member by member.
  at::Tensor soloLosses(const std::vector<at::Tensor>& stacked,
                        const std::vector<std::vector<at::Tensor>>& solo, const Batch& batch) {
    if (!loss_) return fused_.lossWithGradient(stacked, batch);
    std::vector<at::Tensor> losses;
    for (const std::vector<at::Tensor>& outputs : solo) {
      std::vector<torch::jit::IValue> arguments(outputs.begin(), outputs.end());
      arguments.emplace_back(batch.target);
      losses.push_back(loss_->forward(arguments).toTensor());
    }
    return at::stack(losses);
  }

  /// The solo outputs stacked get the same loss; its gradients flow into each member's own code.
  void trainOnce(const Batch& batch) {
    fused_.train();
    const auto solo = soloOutputs(batch, true);
    std::vector<at::Tensor> stacked;
    for (size_t i = 0; i < solo.at(0).size(); ++i) {
      std::vector<at::Tensor> column;
      for (const auto& outputs : solo) column.push_back(outputs.at(i));
      stacked.push_back(at::stack(column));
    }
    const std::vector<size_t> trained = trainableSlots(model_);
    const at::Tensor losses = soloLosses(stacked, solo, batch);
    const auto [fused_losses, fused_gradients] = fused_.gradients(batch);
    std::vector<at::Tensor> leaves;
    for (const SoloMember& member : solos_) {
      for (const size_t slot : trained) leaves.push_back(member.tensors().at(slot));
    }
    const auto gradients =
        torch::autograd::grad({losses.sum()}, leaves, {}, std::nullopt, true, true);
    requireUntouched(losses, trained);
    for (size_t k = 0; k < solos_.size(); ++k) {
      note(k, "loss", fused_losses.select(0, static_cast<int64_t>(k)),
           losses.select(0, static_cast<int64_t>(k)));
      for (size_t j = 0; j < trained.size(); ++j) {
        const at::Tensor& mine = gradients.at(k * trained.size() + j);
        if (!mine.defined()) continue;
        note(k, "gradient of '" + model_.prototype.slots[trained[j]].name + "'",
             fused_gradients.at(j).select(0, static_cast<int64_t>(k)), mine);
      }
    }
    if (model_.optimizer) update(trained, gradients);
    compareTensors();
  }

  /// A parameter that the fused model leaves alone has no gradient in a member's own code, unless
  /// it is shared and so was frozen on request.
  void requireUntouched(const at::Tensor& losses, const std::vector<size_t>& trained) {
    const std::vector<TensorSlot>& slots = model_.prototype.slots;
    for (size_t k = 0; k < solos_.size(); ++k) {
      for (size_t slot = 0; slot < slots.size(); ++slot) {
        const at::Tensor& tensor = solos_[k].tensors().at(slot);
        if (!slots[slot].requires_grad) continue;
        if (!tensor.requires_grad() || std::count(trained.begin(), trained.end(), slot)) continue;
        const at::Tensor mine =
            torch::autograd::grad({losses.sum()}, {tensor}, {}, std::nullopt, true, true).at(0);
        if (!mine.defined()) continue;
        note(k, "gradient of '" + slots[slot].name + "'", at::zeros_like(mine), mine);
      }
    }
  }

  /// Both sides get the solo gradients, so that their rounding (compared above) is not amplified:
  /// the fused update, and LibTorch's own optimizers.
  void update(const std::vector<size_t>& trained, const std::vector<at::Tensor>& gradients) {
    const size_t count = trained.size();
    std::vector<at::Tensor> stacked;
    for (size_t j = 0; j < count; ++j) {
      std::vector<at::Tensor> column;
      for (size_t k = 0; k < solos_.size(); ++k) {
        const at::Tensor& mine = gradients.at(k * count + j);
        column.push_back(mine.defined() ? mine
                                        : at::zeros_like(solos_[k].tensors().at(trained[j])));
      }
      stacked.push_back(at::stack(column));
    }
    fused_.update(stacked);
    for (size_t k = 0; k < solos_.size(); ++k) {
      std::vector<at::Tensor> parameters;
      for (size_t j = 0; j < count; ++j) {
        parameters.push_back(solos_[k].tensors().at(trained[j]));
        parameters.back().mutable_grad() = stacked[j].select(0, static_cast<int64_t>(k)).clone();
      }
      if (updates_.size() <= k) updates_.push_back(soloOptimizer(*model_.optimizer, k, parameters));
      updates_[k]->step();
    }
  }

  FusedModel model_;
  const std::vector<Member>& members_;
  Executor fused_;
  Examples examples_;
  double atol_;
  std::optional<torch::jit::Module> loss_;
  std::vector<SoloMember> solos_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> updates_;
  Difference worst_;
};

/// What cannot be compared, and why; "" if all can.
std::string uncheckable(const FusedModel& model, const std::vector<Member>& members) {
  if (const Node* node = undrawableOp(members[0])) {
    return std::string("training, since ") + node->kind().toQualString() +
           " draws random numbers of its own";
  }
  if (!members[0].code_trains) return "training, since the trace was made in eval mode";
  if (model.optimizer && !hasSoloOptimizer(*model.optimizer)) {
    return "updates, since LibTorch has no '" + model.optimizer->name + "' with these options";
  }
  return "";
}

struct Precision {
  std::optional<at::ScalarType> dtype;
  double tolerance;
  double atol;
  std::string name;
};

Difference compare(const FusedModel& model, const std::vector<Member>& members,
                   const VerifyOptions& options, const Precision& precision, bool trains) {
  Comparison comparison(model, members, precision.dtype, precision.atol);
  Difference worst;
  if (members[0].code_evaluates) worst = comparison.evaluate();
  if (trains) worst = comparison.train(options.steps);
  return worst;
}

/// In the members' own precision a failure is the network's, or ours: it is told apart by the
/// member's own code.
Difference compareAsGiven(const FusedModel& model, const std::vector<Member>& members,
                          const VerifyOptions& options, const Precision& precision, bool trains) {
  try {
    return compare(model, members, options, precision, trains);
  } catch (const c10::Error& failure) {
    const std::string why = failure.what_without_backtrace();
    throw Refused(error("the network cannot be run and trained on examples of these shapes: " +
                            why.substr(0, why.find('\n')),
                        Place{members[0].path, "", "", ""})
                      .note("it may fail in PyTorch as well")
                      .helpWith("--no-verify fuses it without this check"));
  }
}

}  // namespace

VerifyReport verify(const FusedModel& model, const std::vector<Member>& members,
                    const VerifyOptions& options) {
  VerifyReport report;
  report.unchecked = uncheckable(model, members);
  const bool trains = members[0].code_trains && !undrawableOp(members[0]);
  if (!trains && !members[0].code_evaluates) return report;

  FusedModel checked = model;
  if (model.loss) {
    const std::string seen = losses::withoutPenalties(model.loss->name);
    if (seen != model.loss->name) {
      report.unchecked += (report.unchecked.empty() ? "" : "; ") + std::string("the penalties");
    }
    checked.loss->name = seen;
    if (seen.empty()) checked.loss.reset();
    if (!checked.loss) checked.optimizer.reset();
  }
  if (model.optimizer && !hasSoloOptimizer(*model.optimizer)) checked.optimizer.reset();
  const Precision fine{at::kDouble, 1e-5, 1e-12, "fp64"},
      plain{std::nullopt, options.rtol, options.atol, "fp32"};
  Precision used = fine;
  Difference worst;
  try {
    worst = compare(checked, members, options, fine, trains);
  } catch (const c10::Error&) {
    used = plain;  // the graph mentions fp32 by name
  } catch (const std::runtime_error&) {
    used = plain;
  }
  if (!used.dtype || worst.relative > used.tolerance) {
    used = plain;
    worst = compareAsGiven(checked, members, options, plain, trains);
  }
  if (worst.relative > used.tolerance) {
    throw Refused(
        internalError(c10::str("the fused model differs from ", worst.what, " by ", worst.relative,
                               " of its scale (allowed: ", used.tolerance, ", ", used.name, ")")));
  }
  report.checked = true;
  report.worst = worst.relative;
  report.summary =
      c10::str(trains ? c10::str("outputs, gradients, buffers and updates agree after ",
                                 options.steps, options.steps == 1 ? " step" : " steps")
                      : std::string("outputs agree in eval mode"),
               " (", used.name, ", largest relative difference ", worst.relative, ")");
  return report;
}

}  // namespace chorus
