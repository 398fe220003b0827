#include "tools/chorus-run/torch_state.h"

#include "lib/export/alone.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

void append(std::map<std::string, std::vector<double>>& all,
            const std::map<std::string, std::vector<double>>& one) {
  for (const auto& [name, values] : one) all[name].push_back(values.front());
}

bool sameGroups(const OptimizerSpec& a, const OptimizerSpec& b) {
  bool same = a.groups.size() == b.groups.size();
  for (size_t g = 0; same && g < a.groups.size(); ++g) {
    same = a.groups[g].parameters == b.groups[g].parameters;
  }
  return same;
}

}  // namespace

std::vector<TorchOptimizer> readTorchOptimizers(const RunOptions& options,
                                                const FusedModel& model) {
  std::vector<TorchOptimizer> saved;
  if (options.optimizer_state.empty()) return saved;
  if (!model.optimizer && options.training.optimizer.empty()) {
    throw Refused(usage("--optimizer-state: the state dict does not say which optimizer it is of")
                      .helpWith("--optimizer names it, e.g. --optimizer adam"));
  }
  const std::string name = model.optimizer ? model.optimizer->name : options.training.optimizer;
  const auto paths = oneOrKTexts("--optimizer-state", options.optimizer_state, model.k());
  for (size_t k = 0; k < model.k(); ++k) {
    saved.push_back(model.partial.empty()
                        ? readTorchOptimizer(paths[k], name, model, k)
                        : readTorchOptimizer(paths[k], name, memberAlone(model, k), 0));
    if (model.partial.empty() || saved.back().spec.groups.empty()) continue;
    throw Refused(
        unsupported("--optimizer-state with parameter groups, where members differ in places",
                    Place{paths[k]}));
  }
  return saved;
}

OptimizerSpec specOf(const std::vector<TorchOptimizer>& saved) {
  OptimizerSpec all = saved.front().spec;
  for (size_t k = 1; k < saved.size(); ++k) {
    const OptimizerSpec& one = saved[k].spec;
    const std::string who = " in '" + saved.front().path + "' and '" + saved[k].path + "'";
    for (const auto& [flag, on] : one.flags) {
      if (on == all.flags.at(flag)) continue;
      throw Refused(
          unsupported("'" + flag + "' is true for one member and false for another" + who));
    }
    if (!sameGroups(all, one)) {
      throw Refused(unsupported("the parameter groups are not of the same parameters" + who));
    }
    append(all.values, one.values);
    for (size_t g = 0; g < one.groups.size(); ++g)
      append(all.groups[g].values, one.groups[g].values);
  }
  return all;
}

}  // namespace chorus
