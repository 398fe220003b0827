#include "runtime/optimizer_step.h"

#include <ATen/Parallel.h>

#include "lib/export/state.h"
#include "lib/support/fault.h"
#include "runtime/kernels/cpu/updates.h"

namespace chorus {
namespace {

bool isSet(const OptimizerSpec& spec, const std::string& flag) {
  const auto found = spec.flags.find(flag);
  return found != spec.flags.end() && found->second;
}

using Values = std::map<std::string, std::vector<double>>;

kernels::AdamNumbers adamNumbers(const OptimizerSpec& spec, const Values& values, size_t k,
                                 int64_t step) {
  const auto value = [&](const char* name) { return values.at(name).at(k); };
  return {value("lr"),           value("beta1"),       value("beta2"),          value("eps"),
          value("weight_decay"), spec.name == "adamw", isSet(spec, "maximize"), step};
}

kernels::SgdNumbers sgdNumbers(const OptimizerSpec& spec, const Values& values, size_t k,
                               int64_t step) {
  const auto value = [&](const char* name) { return values.at(name).at(k); };
  return {value("lr"),
          value("momentum"),
          value("dampening"),
          value("weight_decay"),
          isSet(spec, "nesterov"),
          isSet(spec, "maximize"),
          step == 1};
}

/// The rows of one parameter: [K,width] in memory, and where its state is in the flat [K,P].
struct Rows {
  at::Tensor parameter, gradient;
  int64_t width, start;
};

template <typename T>
void updateRow(const FusedModel& model, const OptimizerSpec& spec, const DtypeGroup& group,
               const Rows& rows, size_t k, size_t begin, int64_t step) {
  const auto row = static_cast<int64_t>(k), mine = static_cast<int64_t>(k - begin);
  T* p = rows.parameter.data_ptr<T>() + row * rows.width;
  const T* g = rows.gradient.data_ptr<T>() + mine * rows.width;
  const auto state = [&](const char* name) {
    return model.state.at(name + group.suffix).data_ptr<T>() + row * group.width + rows.start;
  };
  const size_t who = fault("kernel_of_member_zero") ? 0 : k;
  const Values& values = hyperValues(spec, group.hyper);
  if (spec.name == "sgd") {
    kernels::sgd(p, g, state("momentum_buffer"), rows.width, sgdNumbers(spec, values, who, step));
  } else {
    kernels::adam(p, g, state("exp_avg"), state("exp_avg_sq"), rows.width,
                  adamNumbers(spec, values, who, step));
  }
}

}  // namespace

bool hasUpdateKernel(const FusedModel& model) {
  if (!model.optimizer) return false;
  const std::string& name = model.optimizer->name;
  if (name != "sgd" && name != "adam" && name != "adamw") return false;
  if (isSet(*model.optimizer, "amsgrad")) return false;
  for (const size_t slot : trainableSlots(model)) {
    const at::Tensor& tensor = model.tensors[slot];
    const bool known = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
    if (!known || !tensor.is_cpu() || !tensor.is_contiguous()) return false;
  }
  return true;
}

void updateByKernel(FusedModel& model, const OptimizerSpec& values, size_t begin,
                    const std::vector<bool>& moves, const std::vector<at::Tensor>& gradients) {
  const std::vector<size_t> slots = trainableSlots(model);
  int64_t* steps = model.step.data_ptr<int64_t>();
  std::vector<size_t> moving;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (moves[i]) moving.push_back(begin + i);
  }
  for (const DtypeGroup& group : dtypeGroups(model)) {
    std::vector<Rows> all;
    for (size_t i = 0; i < group.members.size(); ++i) {
      const size_t index = group.members[i];
      const at::Tensor parameter = model.tensors[slots[index]].detach();
      const int64_t width = parameter.numel() / parameter.size(0);
      const at::Tensor& gradient = gradients.at(index);
      const bool absent = gradient.dim() == 1 && gradient.numel() == 0;
      if (!absent && width > 0) {
        all.push_back({parameter, gradient.to(group.dtype).contiguous(), width, group.starts[i]});
      }
    }
    const auto each = [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const size_t k = moving[static_cast<size_t>(i)];
        for (const Rows& rows : all) {
          if (group.dtype == at::kFloat) {
            updateRow<float>(model, values, group, rows, k, begin, steps[k] + 1);
          } else {
            updateRow<double>(model, values, group, rows, k, begin, steps[k] + 1);
          }
        }
      }
    };
    at::parallel_for(0, static_cast<int64_t>(moving.size()), 1, each);
  }
  for (const size_t k : moving) ++steps[k];
}

std::vector<bool> finiteMembers(const std::vector<at::Tensor>& gradients, size_t n) {
  std::vector<bool> finite(n, true);
  for (const at::Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const at::Tensor rows = gradient.contiguous();
    const int64_t width = rows.numel() / static_cast<int64_t>(n);
    const bool direct =
        rows.is_cpu() && (rows.scalar_type() == at::kFloat || rows.scalar_type() == at::kDouble);
    const at::Tensor flags =
        direct ? at::Tensor() : at::isfinite(rows).reshape({rows.size(0), -1}).all(1).cpu();
    for (size_t k = 0; k < n; ++k) {
      const int64_t at = static_cast<int64_t>(k) * width;
      const bool good = !direct ? flags[static_cast<int64_t>(k)].item<bool>()
                        : rows.scalar_type() == at::kFloat
                            ? kernels::allFinite(rows.data_ptr<float>() + at, width)
                            : kernels::allFinite(rows.data_ptr<double>() + at, width);
      finite[k] = finite[k] && good;
    }
  }
  return finite;
}

}  // namespace chorus
