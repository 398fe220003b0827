#include "tools/common/training_options.h"

#include <algorithm>
#include <cmath>

#include "tools/common/terminal.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

constexpr const char* kGroup = "Loss and optimizer";

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool isPairHalf(const std::string& name) { return name.ends_with('1') || name.ends_with('2'); }

/// "beta1" -> "betas", "weight_decay" -> "weight-decay".
std::string optionOf(const std::string& hyperparameter) {
  if (!isPairHalf(hyperparameter)) return dashed(hyperparameter);
  return dashed(hyperparameter.substr(0, hyperparameter.size() - 1)) + "s";
}

std::vector<std::string> optionsOf(const OptimizerDefinition& optimizer) {
  std::vector<std::string> names;
  for (const Hyperparameter& h : optimizer.hyperparameters) names.push_back(optionOf(h.name));
  for (const std::string& flag : optimizer.flags) names.push_back(dashed(flag));
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What is given, by option, whether on the command line or in the table.
std::vector<std::string> givenOptions(const TrainingOptions& options) {
  std::vector<std::string> given;
  for (const auto& [name, text] : options.values) {
    if (!text.empty()) given.push_back(name);
  }
  for (const auto& [name, on] : options.flags) {
    if (on) given.push_back(name);
  }
  if (!options.table) return given;
  for (const auto& [column, cells] : options.table->columns) {
    if (!options.values.count(column) && !options.flags.count(column)) continue;  // the tool's own
    if (contains(given, column)) {
      throw Refused(usage("'" + column + "' is given by --" + column + " and by a column of " +
                          options.table->file));
    }
    given.push_back(column);
  }
  return given;
}

void refuseForeign(const OptimizerDefinition& optimizer, const std::vector<std::string>& given) {
  const std::vector<std::string> known = optionsOf(optimizer);
  for (const std::string& name : given) {
    if (contains(known, name)) continue;
    const std::string near = nearest(name, known);
    std::string all;
    for (const std::string& option : known) {
      if (all.find("--" + option + " ") == std::string::npos) all += "--" + option + " ";
    }
    throw Refused(usage("optimizer '" + optimizer.name + "' has no hyperparameter '" + name + "'" +
                        (near.empty() ? "" : "; did you mean '" + near + "'?"))
                      .note("it has " + all.substr(0, all.size() - 1)));
  }
}

/// K values of one hyperparameter; nullopt where neither option nor column gives it.
std::optional<std::vector<double>> givenValues(const TrainingOptions& options,
                                               const Hyperparameter& h,
                                               const std::vector<double>& fallback) {
  const std::string option = optionOf(h.name);
  const bool second = h.name.ends_with('2');
  const auto half = [&](const auto& pairs) {
    std::vector<double> values;
    for (const auto& [a, b] : pairs) values.push_back(second ? b : a);
    return values;
  };
  const size_t k = fallback.size();
  const auto text = options.values.find(option);
  if (text != options.values.end() && !text->second.empty()) {
    return isPairHalf(h.name) ? half(oneOrKPairs("--" + option, text->second, k))
                              : oneOrK("--" + option, text->second, k);
  }
  if (!options.table || !options.table->has(option)) return std::nullopt;
  // A null cell takes the default, which the other half of a pair does not know: NaN marks it.
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = isPairHalf(h.name)
                                   ? half(pairs(*options.table, option, std::pair{kNone, kNone}))
                                   : numbers(*options.table, option, kNone);
  for (size_t i = 0; i < k; ++i) {
    if (std::isnan(values[i])) values[i] = fallback[i];
  }
  return values;
}

bool givenFlag(const TrainingOptions& options, const std::string& optimizer,
               const std::string& flag, bool fallback) {
  const std::string option = dashed(flag);
  const auto on = options.flags.find(option);
  if (on != options.flags.end() && on->second) return true;
  if (!options.table || !options.table->has(option)) return fallback;
  const std::vector<bool> values = flags(*options.table, option);
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end()) {
    throw Refused(unsupported("'" + option + "' of optimizer '" + optimizer +
                                  "' is true for some members and false for others",
                              Place{options.table->file}));
  }
  return values.front();
}

std::string memberText(size_t k, const std::vector<std::string>& members) {
  return members.size() == 1 ? "" : " for member " + std::to_string(k) + " ('" + members[k] + "')";
}

std::string rangeText(const Hyperparameter& h) {
  if (h.below) return "in [" + numberText(h.minimum) + ", " + numberText(*h.below) + ")";
  return h.minimum == 0 ? "0 or more" : "at least " + numberText(h.minimum);
}

void checkRange(const Hyperparameter& h, const std::vector<double>& values,
                const std::vector<std::string>& members) {
  for (size_t k = 0; k < values.size(); ++k) {
    const double value = values[k];
    if (value >= h.minimum && (!h.below || value < *h.below)) continue;
    const std::string which =
        isPairHalf(h.name) ? (h.name.ends_with('1') ? "the first of " : "the second of ") : "";
    throw Refused(error(which + "--" + optionOf(h.name) + " is " + numberText(value, 17) +
                        memberText(k, members) + ", but has to be " + rangeText(h)));
  }
}

std::map<std::string, std::string> usersOfOptions() {
  std::map<std::string, std::string> users;
  for (const OptimizerDefinition& optimizer : allOptimizers()) {
    std::set<std::string> seen;
    for (const std::string& option : optionsOf(optimizer)) {
      if (!seen.insert(option).second) continue;
      users[option] += (users[option].empty() ? "" : ", ") + optimizer.name;
    }
  }
  return users;
}

template <class Definitions>
std::string namesOf(const Definitions& definitions) {
  std::string names;
  for (const auto& definition : definitions) names += (names.empty() ? "" : ", ") + definition.name;
  return names;
}

}  // namespace

bool TrainingOptions::givesHyperparameters() const { return !givenOptions(*this).empty(); }

void addTrainingOptions(CLI::App& app, TrainingOptions& options) {
  app.add_option("--loss", options.loss, namesOf(allLosses()) + ", or a scripted loss LOSS.pt")
      ->group(kGroup);
  app.add_option(
         "--loss-arg", options.loss_arguments,
         "NAME=VALUE, e.g. label_smoothing=0.1 or weight=w.npy; one value or K (repeatable)")
      ->group(kGroup);
  app.add_option("--target", options.target,
                 "dtype and sizes of the target, e.g. i64[N]; default: by the loss")
      ->group(kGroup);
  app.add_option("--optimizer", options.optimizer, namesOf(allOptimizers()))->group(kGroup);
  std::map<std::string, std::string> users = usersOfOptions();
  for (const OptimizerDefinition& optimizer : allOptimizers()) {
    for (const Hyperparameter& h : optimizer.hyperparameters) {
      const std::string option = optionOf(h.name);
      if (options.values.count(option)) continue;
      const std::string form =
          isPairHalf(h.name) ? "a pair, or K pairs between ';' (" : "one value or K (";
      app.add_option("--" + option, options.values[option], form + users[option] + ")")
          ->group(kGroup);
    }
    for (const std::string& flag : optimizer.flags) {
      const std::string option = dashed(flag);
      if (options.flags.count(option)) continue;
      app.add_flag("--" + option, options.flags[option], "for all members (" + users[option] + ")")
          ->group(kGroup);
    }
  }
  app.add_option("--hparams", options.hparams,
                 "CSV or JSON table: a row per member, columns named like options")
      ->group(kGroup);
  app.add_option("--param-groups", options.parameter_groups,
                 "CSV table: parameters by name pattern with hyperparameters of their own")
      ->group(kGroup);
}

void readTable(TrainingOptions& options, const std::vector<std::string>& extra_columns,
               const std::vector<std::string>& members) {
  if (options.hparams.empty()) return;
  std::vector<std::string> known = extra_columns;
  for (const auto& [name, text] : options.values) known.push_back(name);
  for (const auto& [name, on] : options.flags) known.push_back(name);
  options.table = readHparams(options.hparams, known, members);
}

std::optional<OptimizerSpec> optimizerSpec(const TrainingOptions& options,
                                           const std::vector<std::string>& members,
                                           const OptimizerSpec* base) {
  const std::vector<std::string> given = givenOptions(options);
  if (options.optimizer.empty() && !base) {
    if (!given.empty()) {
      throw Refused(usage("'" + given.front() + "' is a hyperparameter, but there is no optimizer")
                        .helpWith("--optimizer names one: " + namesOf(allOptimizers())));
    }
    return std::nullopt;
  }
  const OptimizerDefinition& definition = findOptimizer(base ? base->name : options.optimizer);
  refuseForeign(definition, given);
  OptimizerSpec spec;
  spec.name = definition.name;
  for (const Hyperparameter& h : definition.hyperparameters) {
    std::vector<double> fallback(members.size(), h.default_value.value_or(0));
    if (base) fallback = base->values.at(h.name);
    const auto values = givenValues(options, h, fallback);
    if (!values && !base && !h.default_value) {
      throw Refused(usage("optimizer '" + definition.name + "' needs --" + optionOf(h.name)));
    }
    spec.values[h.name] = values.value_or(fallback);
    checkRange(h, spec.values[h.name], members);
  }
  for (const std::string& flag : definition.flags) {
    const bool before = base && base->flags.count(flag) && base->flags.at(flag);
    spec.flags[flag] = givenFlag(options, definition.name, flag, before);
  }
  checkOptimizer(spec, members.size());
  return spec;
}

std::vector<std::string> changedHyperparameters(const OptimizerSpec& before,
                                                const OptimizerSpec& after) {
  std::vector<std::string> changed;
  const auto add = [&](const std::string& option) {
    if (!contains(changed, option)) changed.push_back(option);
  };
  for (const auto& [name, values] : after.values) {
    if (before.values.at(name) != values) add(optionOf(name));
  }
  for (const auto& [name, on] : after.flags) {
    const auto was = before.flags.find(name);
    if ((was != before.flags.end() && was->second) != on) add(dashed(name));
  }
  return changed;
}

}  // namespace chorus
