#include "chorus/diagnostics.h"
#include "chorus/loss.h"
#include "lib/losses/scripted.h"
#include "lib/losses/sums.h"

namespace chorus {

const std::vector<LossDefinition>& lossTable();  // generated from the files of this folder

const std::vector<LossDefinition>& allLosses() { return lossTable(); }

const LossDefinition& findLoss(const std::string& name) {
  if (name == losses::kScripted) return losses::scripted();
  if (losses::isSum(name)) return losses::sumOf(name);
  const std::string wanted = name.rfind("output:", 0) == 0 ? "output" : name;
  std::vector<std::string> names;
  for (const LossDefinition& definition : allLosses()) {
    if (definition.name == wanted) return definition;
    names.push_back(definition.name);
  }
  Message message = usage("there is no loss '" + name + "'");
  if (const std::string near = nearest(name, names); !near.empty()) {
    message.helpWith("did you mean '" + near + "'?");
  }
  throw Refused(message);
}

namespace {

void checkName(const LossDefinition& definition, const std::string& argument) {
  const auto& known = definition.arguments;
  if (std::count(known.begin(), known.end(), argument)) return;
  Message message = usage("the loss '" + definition.name + "' has no argument '" + argument + "'");
  if (const std::string near = nearest(argument, known); !near.empty()) {
    message.helpWith("did you mean '" + near + "'?");
  }
  throw Refused(message);
}

}  // namespace

void checkLossArguments(const LossDefinition& definition, const LossRequest& request) {
  for (const auto& [name, values] : request.spec.arguments) {
    checkName(definition, name);
    if (values.size() == 1 || values.size() == request.k) continue;
    throw Refused(error("'" + name + "' has " + std::to_string(values.size()) + " values for " +
                        std::to_string(request.k) + " members"));
  }
  for (const auto& [name, tensor] : request.spec.tensors) checkName(definition, name);
}

}  // namespace chorus
