#include "tools/chorus-fuse/partial_parts.h"

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "lib/export/alone.h"
#include "lib/export/random_nodes.h"
#include "lib/support/graph_order.h"
#include "lib/support/packed_name.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

/// For each node of the prototype that draws: its number in the member's own graph, -1 where the
/// member does not have it. `map`: nodes of `own` -> nodes of `original`.
std::vector<int64_t> numbersOf(const std::vector<const Node*>& drawing, const Graph& own,
                               const Graph& original, const NodeCopies& copies,
                               const std::vector<uint32_t>& map) {
  std::unordered_map<const Node*, int64_t> number;  // of nodes of `own`
  const std::vector<int64_t> theirs = randomNumbers(original);
  const std::vector<Node*> mine = nodesInOrder(own);
  for (size_t i = 0; i < mine.size(); ++i) {
    if (map[i] != kNoNode) number[mine[i]] = theirs.at(map[i]);
  }
  std::vector<int64_t> numbers;
  for (const Node* node : drawing) {
    const auto copy = copies.find(node);
    const auto found = copy == copies.end() ? number.end() : number.find(copy->second);
    numbers.push_back(found == number.end() ? -1 : found->second);
  }
  return numbers;
}

void setTensors(const FusedModel& model, size_t k, Member& member) {
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const OwnTensor& own = model.partial[k].tensors[i];
    member.slots[i].value = ownTensor(model, k, own, model.tensors[own.in].detach());
  }
}

}  // namespace

Member ownMember(const FusedModel& model, size_t k) {
  Member member = ownStructure(model, k);
  setTensors(model, k, member);
  return member;
}

void takePartialParts(FusedModel& model, const PartialParts& parts) {
  model.partial = parts.combined.partial;
  model.random_nodes.clear();
  const std::vector<const Node*> drawing_trains = drawingNodes(model, false),
                                 drawing_evaluates = drawingNodes(model, true);
  nlohmann::json certificates = nlohmann::json::array();
  for (size_t k = 0; k < model.k(); ++k) {
    const Member& original = parts.originals[k];
    NodeCopies copies;
    std::vector<Member> pair = {ownStructure(model, k, &copies), original};
    setTensors(model, k, pair[0]);
    pair[0].code_trains = original.code_trains;
    const std::vector<ProvedGroup> groups = proveGroups(pair);
    const std::string wrong =
        groups.size() > 1 ? "it has another graph" : checkCertificate(groups[0].certificate, pair);
    if (!wrong.empty() || !groups[0].certificate.attributes.empty() ||
        !groups[0].certificate.constants.empty()) {
      throw Refused(
          internalError("--partial made another network of '" + original.name + "': " + wrong));
    }
    const MemberMap& map = groups[0].certificate.members.at(1);
    model.random_nodes.push_back({numbersOf(drawing_trains, *pair[0].train.graph,
                                            *original.train.graph, copies, map.train_nodes),
                                  numbersOf(drawing_evaluates, *pair[0].eval.graph,
                                            *original.eval.graph, copies, map.eval_nodes)});
    certificates.push_back(toJson(groups[0].certificate));
  }
  model.info["certificate"] = {{"partial", certificates}};
  const Combined& combined = parts.combined;
  model.info["partial"] = {{"variants", combined.variants},   {"common_ops", combined.common_ops},
                           {"apart_ops", combined.apart_ops}, {"saved_us", combined.saved},
                           {"spent_us", combined.spent},      {"notes", combined.notes}};
}

void checkPartialOptimizer(const TrainingOptions& options, const FusedModel& model) {
  if (!model.optimizer) return;
  for (const size_t slot : trainableSlots(model)) {
    if (!isPackedName(model.prototype.slots[slot].name)) continue;
    const std::string& name = model.optimizer->name;
    if (name == "adafactor" || name == "muon") {
      throw Refused(unsupported("--partial: the optimizer '" + name + "' needs the shape of '" +
                                slotTitle(model, slot) + "', which other members do not have"));
    }
    if (!options.parameter_groups.empty()) {
      throw Refused(
          unsupported("--partial with --param-groups, where members have parameters of "
                      "their own, e.g. '" +
                      slotTitle(model, slot) + "'"));
    }
  }
}

std::string checkParts(const FusedModel& model, const std::vector<Member>& members) {
  const nlohmann::json& certificates =
      model.info.at("certificate").value("partial", nlohmann::json::array());
  if (!certificates.is_array() || certificates.size() != members.size())
    return "it has no certificate for each member";
  for (size_t k = 0; k < members.size(); ++k) {
    const Certificate certificate = certificateFromJson(certificates[k]);
    const std::string wrong = checkCertificate(certificate, {ownMember(model, k), members[k]});
    if (!wrong.empty())
      return "member " + std::to_string(k) + " (" + members[k].path + "): " + wrong;
    if (!certificate.attributes.empty() || !certificate.constants.empty())
      return "member " + std::to_string(k) + " has other numbers";
  }
  return "";
}

std::string partialText(const FusedModel& model) {
  if (model.partial.empty()) return "";
  const nlohmann::json& facts = model.info.at("partial");
  const auto variants = facts.at("variants").get<size_t>();
  std::string text = std::to_string(facts.at("common_ops").get<size_t>()) +
                     " ops are common to all members (estimated: " +
                     numberText(facts.at("saved_us").get<double>(), 3) + " us a step saved, " +
                     numberText(facts.at("spent_us").get<double>(), 3) + " us of copies)\n";
  for (size_t v = 0; v < variants; ++v) {
    std::string names;
    size_t count = 0;
    for (size_t k = 0; k < model.k(); ++k) {
      if (model.partial[k].variant != v || ++count > 4) continue;
      names += (names.empty() ? "" : ", ") + model.member_names[k];
    }
    if (count > 4) names += ", ... (" + std::to_string(count) + " members)";
    text += "apart: " + names + ": " + std::to_string(facts.at("apart_ops").at(v).get<size_t>()) +
            " ops of their own\n";
  }
  for (const nlohmann::json& note : facts.at("notes")) text += note.get<std::string>() + "\n";
  int64_t padding = 0;
  size_t packed = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (!isPackedName(model.prototype.slots[i].name)) continue;
    ++packed;
    padding += static_cast<int64_t>(model.tensors[i].nbytes());
    for (const PartialMember& member : model.partial) {
      for (const OwnTensor& own : member.tensors) {
        if (own.in == i)
          padding -= c10::multiply_integers(own.sizes) *
                     static_cast<int64_t>(model.tensors[i].element_size());
      }
    }
  }
  if (packed > 0)
    text += std::to_string(packed) +
            " tensors 'chorus.own.p...' hold what members have of their own (" +
            numberText(static_cast<double>(padding) / 1e6, 3) + " MB of it unused)\n";
  return text;
}

}  // namespace chorus
