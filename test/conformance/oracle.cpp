#include "test/conformance/oracle.h"

#include "chorus/batch_graph.h"
#include "chorus/batching_rule.h"
#include "test/conformance/run.h"

namespace chorus::conformance {
namespace {

constexpr int64_t kBatch = 4, kOtherBatch = 3;
constexpr size_t kEnough = 4;  // violations reported of one sample

/// One run: K members' operands, some of them shared.
struct Case {
  int64_t k = 1;
  int64_t n = kBatch;
  bool contiguous = true;
  std::vector<int64_t> order;  ///< place j holds member order[j]
  int64_t poisoned = -1;       ///< this member's floating operands are NaN, its others drawn anew
};

struct Results {
  std::vector<at::Tensor> outputs;    ///< [K,...] each, shared ones expanded
  std::vector<at::Tensor> gradients;  ///< per tensor: [K,...] if stacked, else the member's shape
};

double toleranceOf(const Sample& sample, bool gradient) {
  double tolerance = gradient ? 1e-5 : 2e-6;
  for (const TensorSpec& tensor : sample.tensors) {
    if (tensor.dtype == at::kHalf || tensor.dtype == at::kBFloat16) tolerance = 2e-2;
  }
  return tolerance;
}

uint64_t seedOf(size_t tensor, int64_t member) {
  return 100 * static_cast<uint64_t>(member + 1) + tensor;
}

class Oracle {
 public:
  Oracle(const Sample& sample, const std::vector<bool>& stacked)
      : sample_(sample), stacked_(stacked), member_(memberGraph(sample)) {
    has_gradient_ = !sample_.has("shapes");
    try {
      if (has_gradient_) solo({.k = 1});
    } catch (const c10::Error&) {
      has_gradient_ = false;  // of an op that has no derivative
    }
  }

  std::vector<std::string> run() {
    check("rule", batchGraph(*member_, stacked_, false), !sample_.has("per-member"));
    if (sample_.has("per-member") || sample_.has("mixed") || !givesTensors()) return found_;
    check("loop", batchGraph(*member_, stacked_, false, {sample_.op}), false);
    return found_;
  }

 private:
  bool givesTensors() const {
    return std::ranges::all_of(member_->outputs(), [](const Value* output) {
      return output->type()->kind() == c10::TypeKind::TensorType;
    });
  }

  void check(const std::string& how, const BatchedGraph& batched, bool by_rule) {
    how_ = how;
    batched_ = &batched;
    checkDecision(by_rule);
    for (size_t i = 0; i < batched.stacked_outputs.size(); ++i) {
      if (!batched.stacked_outputs[i] && !sample_.has("shared"))
        report({}, "result " + std::to_string(i) + " is shared");
    }
    for (const int64_t k : {1, 2, 3, 4}) compare({.k = k});
    compare({.k = 3, .contiguous = false});
    if (sample_.followsBatch()) compare({.k = 3, .n = kOtherBatch});
    checkLaws();
  }

  void checkDecision(bool by_rule) {
    if (sample_.has("mixed")) return;
    for (const Decision& decision : batched_->decisions) {
      if (decision.op != sample_.op) continue;
      const bool was = decision.kind == Decision::Kind::Fused;
      if (was != by_rule)
        report({}, was ? "the rule was used" : "runs per member: " + decision.reason);
    }
  }

  at::Tensor operandOf(const Case& one, size_t tensor, int64_t place) const {
    const int64_t member = one.order.empty() ? place : one.order[static_cast<size_t>(place)];
    const TensorSpec& spec = sample_.tensors[tensor];
    if (!stacked_[tensor]) return spec.draw(one.n, seedOf(tensor, -1));
    if (member != one.poisoned) return spec.draw(one.n, seedOf(tensor, member));
    at::Tensor other = spec.draw(one.n, seedOf(tensor, member + 50));
    return at::isFloatingType(spec.dtype) ? other.fill_(std::numeric_limits<double>::quiet_NaN())
                                          : other;
  }

  at::Tensor withGradient(at::Tensor x, size_t tensor) const {
    return x.detach().requires_grad_(sample_.tensors[tensor].differentiable);
  }

  /// Random, the same for a member wherever it stands and however it is run.
  at::Tensor weightOf(const at::Tensor& output, size_t i, int64_t member) const {
    TensorSpec spec;
    spec.dtype = at::isFloatingType(output.scalar_type()) ? output.scalar_type() : at::kFloat;
    for (const int64_t size : output.sizes()) spec.sizes.push_back(size);
    return spec.draw(0, seedOf(i + 31, member));
  }

  Results fused(const Case& one) const {
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < sample_.tensors.size(); ++i) {
      if (!stacked_[i]) {
        inputs.push_back(withGradient(operandOf(one, i, 0), i));
        continue;
      }
      std::vector<at::Tensor> members;
      for (int64_t j = 0; j < one.k; ++j) members.push_back(operandOf(one, i, j));
      const bool strided = !one.contiguous && members[0].dim() > 0;
      // [N,K,...] -> [K,N,...]: what the channel-merged layout leaves behind
      inputs.push_back(
          withGradient(strided ? at::stack(members, 1).transpose(0, 1) : at::stack(members), i));
    }
    const auto values = runGraph(batched_->graph, inputs);
    Results results;
    std::vector<at::Tensor> weights, raw;
    for (size_t i = 0; i < values.size(); ++i) {
      for (const at::Tensor& output : tensorsOf(values[i])) {
        const at::Tensor all = batched_->stacked_outputs[i]
                                   ? output
                                   : output.unsqueeze(0).expand(expanded(output, one.k));
        std::vector<at::Tensor> slices;
        for (int64_t j = 0; j < one.k; ++j)
          slices.push_back(
              weightOf(all.select(0, std::min(j, all.size(0) - 1)), raw.size(), memberAt(one, j)));
        weights.push_back(at::stack(slices));
        raw.push_back(all);
        results.outputs.push_back(all.detach());
      }
    }
    if (has_gradient_) results.gradients = gradients(raw, weights, inputs);
    return results;
  }

  static std::vector<int64_t> expanded(const at::Tensor& x, int64_t k) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.insert(sizes.begin(), k);
    return sizes;
  }

  static int64_t memberAt(const Case& one, int64_t place) {
    return one.order.empty() ? place : one.order[static_cast<size_t>(place)];
  }

  /// The same, one member after the other. Gradients of shared operands add up.
  Results solo(const Case& one) const {
    Results results;
    std::vector<std::vector<at::Tensor>> outputs, gradient;
    for (int64_t j = 0; j < one.k; ++j) {
      std::vector<at::Tensor> inputs, raw, weights, plain;
      for (size_t i = 0; i < sample_.tensors.size(); ++i)
        inputs.push_back(withGradient(operandOf(one, i, j), i));
      for (const auto& value : runGraph(member_, inputs)) {
        for (const at::Tensor& output : tensorsOf(value)) {
          weights.push_back(weightOf(output, raw.size(), memberAt(one, j)));
          raw.push_back(output);
          plain.push_back(output.detach());
        }
      }
      if (has_gradient_) gradient.push_back(gradients(raw, weights, inputs));
      outputs.push_back(plain);
    }
    results.outputs = stackedOver(outputs);
    if (!gradient.empty()) results.gradients = stackedOver(gradient);
    for (size_t i = 0; i < results.gradients.size(); ++i) {
      if (!stacked_[i])
        results.gradients[i] =
            results.gradients[i].sum(0, false, results.gradients[i].scalar_type());
    }
    return results;
  }

  static std::vector<at::Tensor> stackedOver(const std::vector<std::vector<at::Tensor>>& members) {
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < members[0].size(); ++i) {
      std::vector<at::Tensor> slices;
      for (const auto& member : members) slices.push_back(member[i]);
      all.push_back(at::stack(slices));
    }
    return all;
  }

  void compare(const Case& one) {
    if (found_.size() >= kEnough) return;
    try {
      const Results got = fused(one), wanted = solo(one);
      if (got.outputs.size() != wanted.outputs.size()) {
        return report(one, std::to_string(got.outputs.size()) + " results, not " +
                               std::to_string(wanted.outputs.size()));
      }
      for (size_t i = 0; i < wanted.outputs.size(); ++i) {
        const at::Tensor& x = got.outputs[i];
        const auto what = sample_.has("shapes")
                              ? difference(at::zeros_like(x), at::zeros_like(wanted.outputs[i]), 0)
                              : difference(x, wanted.outputs[i], toleranceOf(sample_, false));
        if (!what.empty()) report(one, "result " + std::to_string(i) + ": " + what);
      }
      for (size_t i = 0; i < wanted.gradients.size(); ++i) {
        const auto what =
            difference(got.gradients[i], wanted.gradients[i], toleranceOf(sample_, true));
        if (!what.empty()) report(one, "gradient of tensor " + std::to_string(i) + ": " + what);
      }
    } catch (const std::exception& raised) {
      report(one, "raised " + std::string(raised.what()).substr(0, 500));
    }
  }

  void checkLaws() {
    if (!found_.empty() || sample_.has("shapes")) return;
    const Results plain = fused({.k = 3});
    const Results permuted = fused({.k = 3, .order = {2, 0, 1}});
    for (size_t i = 0; i < plain.outputs.size(); ++i) {
      const at::Tensor wanted =
          at::stack({plain.outputs[i][2], plain.outputs[i][0], plain.outputs[i][1]});
      const auto what = difference(permuted.outputs[i], wanted, toleranceOf(sample_, false));
      if (!what.empty())
        report({.k = 3}, "permuted members, result " + std::to_string(i) + ": " + what);
    }
    if (sample_.has("no-poison")) return;
    const Results poisoned = fused({.k = 3, .poisoned = 1});
    const auto same = [&](const at::Tensor& a, const at::Tensor& b, const std::string& name) {
      for (const int64_t j : {0, 2}) {
        // Where both are no number nothing has moved.
        const bool alike = ((a[j] == b[j]) | ((a[j] != a[j]) & (b[j] != b[j]))).all().item<bool>();
        if (!alike)
          report({.k = 3}, name + ": member 1's values reach member " + std::to_string(j));
      }
    };
    for (size_t i = 0; i < plain.outputs.size(); ++i)
      same(plain.outputs[i], poisoned.outputs[i], "result " + std::to_string(i));
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      if (stacked_[i])
        same(plain.gradients[i], poisoned.gradients[i], "gradient " + std::to_string(i));
    }
  }

  void report(const Case& one, const std::string& what) {
    std::string choice;
    for (const bool stacked : stacked_) choice += stacked ? "K" : "-";
    found_.push_back(sample_.text + "  [" + choice + ", K=" + std::to_string(one.k) + ", " + how_ +
                     (one.contiguous ? "" : ", strided") + (one.n == kBatch ? "" : ", N=3") + "] " +
                     what);
  }

  const Sample& sample_;
  const std::vector<bool>& stacked_;
  std::shared_ptr<Graph> member_;
  const BatchedGraph* batched_ = nullptr;
  std::string how_;
  bool has_gradient_ = true;
  std::vector<std::string> found_;
};

/// Sets of stacked tensors, as bits: every one, or of many tensors a few that differ much.
std::vector<size_t> choicesOf(size_t tensors) {
  std::vector<size_t> choices;
  const size_t all = (size_t{1} << tensors) - 1, last = size_t{1} << (tensors - 1);
  if (tensors > 5) {
    const size_t every_other = 0x5555555555555555;
    return {all, 1, last, all ^ 1, all ^ last, all & every_other, all & ~every_other};
  }
  for (size_t choice = 1; choice <= all; ++choice) choices.push_back(choice);
  return choices;
}

}  // namespace

std::vector<std::string> violations(const Sample& sample) {
  std::vector<std::string> all;
  for (const size_t choice : choicesOf(sample.tensors.size())) {
    std::vector<bool> stacked;
    for (size_t i = 0; i < sample.tensors.size(); ++i) stacked.push_back((choice >> i) & 1);
    try {
      const auto found = Oracle(sample, stacked).run();
      all.insert(all.end(), found.begin(), found.end());
    } catch (const std::exception& raised) {
      all.push_back(sample.text + "  [choice " + std::to_string(choice) + "] raised " +
                    raised.what());
    }
    if (all.size() >= kEnough) break;
  }
  return all;
}

}  // namespace chorus::conformance
