#include "tools/chorus-fuse/checking.h"

#include <functional>

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "chorus/fused_model.h"
#include "lib/export/align_varying.h"
#include "lib/export/alone.h"
#include "lib/export/varying.h"
#include "lib/support/graph_order.h"
#include "lib/support/hash.h"
#include "tools/chorus-fuse/partial_parts.h"

namespace chorus {
namespace {

Refused notMadeFrom(const std::string& path, const std::string& what) {
  return Refused(
      error("the fused file is not made from these members: " + what, Place{path, "", "", ""}));
}

[[noreturn]] void fails(const std::string& path, const std::string& what) {
  throw notMadeFrom(path, what);
}

/// The checker counts nodes, as certificates do; people know modules and lines.
[[noreturn]] void refuseCertificate(const std::string& path, const std::string& wrong,
                                    const FaultPlace& fault, const std::vector<Member>& members) {
  const Member& first = members.at(0);
  const CanonicalGraph& graph = fault.in_eval ? first.eval : first.train;
  const std::vector<Node*> nodes = nodesInOrder(*graph.graph);
  if (!fault.node || *fault.node >= nodes.size()) fails(path, wrong);
  const Node* node = nodes[*fault.node];
  std::vector<Message> messages = notMadeFrom(path, wrong).messages();
  const Place of_node = placeOf(node, first.path);
  const std::string source = of_node.source.empty() ? "" : " (" + of_node.source + ")";
  const std::string module = of_node.module_path.empty() ? "" : " at " + of_node.module_path;
  messages[0].note("member " + std::to_string(fault.member) + " is " +
                   members.at(fault.member).path);
  const auto* schema = node->maybeSchema();
  if (fault.operand && schema && *fault.operand < schema->arguments().size()) {
    messages[0].note("operand " + std::to_string(*fault.operand) + " is '" +
                     schema->arguments()[*fault.operand].name() + "'");
  }
  if (!source.empty() || !module.empty()) {
    messages[0].note("this node is in " + first.path + source + module);
  }
  throw Refused(std::move(messages));
}

/// The graphs are member 0's, with its numbers as the file carries them: an int beside other
/// members' floats is a float.
void checkGraphs(const std::string& path, const FusedModel& model,
                 const std::vector<VaryingNumber>& numbers, Member first) {
  for (CanonicalGraph* canonical : {&first.train, &first.eval}) {
    canonical->graph = canonical->graph->copy();
    writeNumbers(*canonical->graph, numbers, canonical == &first.eval, 0);
  }
  if (functionHash(unfusedMember(model, 0)) == functionHash(first)) return;
  fails(path, "its graphs are not those of " + first.path);
}

void checkNumbers(const std::string& path, const FusedModel& model,
                  const std::vector<VaryingNumber>& expected) {
  bool same = expected.size() == model.varying.size();
  for (size_t i = 0; same && i < expected.size(); ++i) {
    same = hashTensor(expected[i].values) == hashTensor(model.varying[i].values) &&
           expected[i].places.size() == model.varying[i].places.size();
  }
  if (!same) fails(path, "it carries other numbers per member than they have");
}

/// Tensors that nothing moves, and all of them before the first step.
void checkTensors(const std::string& path, const FusedModel& model, const Certificate& certificate,
                  const std::vector<Member>& members) {
  const bool trained = model.step.gt(0).any().item<bool>();
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (trained && slot.role != Role::Constant) continue;
    for (size_t k = 0; k < members.size(); ++k) {
      const at::Tensor whole = model.tensors[i].detach();
      const at::Tensor mine = model.stacked[i] ? whole.select(0, static_cast<int64_t>(k)) : whole;
      const TensorSlot& theirs = members[k].slots.at(certificate.members[k].slots[i]);
      if (hashTensor(mine) == hashTensor(theirs.value)) continue;
      fails(path, "'" + slot.name + "' of member " + std::to_string(k) + " (" + members[k].path +
                      ") has other values");
    }
  }
}

/// The same for members that differ in places: each by its own part.
void checkOwnTensors(const std::string& path, const FusedModel& model,
                     const std::vector<Member>& members) {
  const bool trained = model.step.gt(0).any().item<bool>();
  for (size_t k = 0; k < members.size(); ++k) {
    const Certificate certificate =
        certificateFromJson(model.info.at("certificate").at("partial").at(k));
    const std::vector<OwnTensor>& tensors = model.partial[k].tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (trained && tensors[i].slot.role != Role::Constant) continue;
      const at::Tensor mine =
          ownTensor(model, k, tensors[i], model.tensors[tensors[i].in].detach());
      const TensorSlot& theirs = members[k].slots.at(certificate.members[1].slots[i]);
      if (hashTensor(mine) == hashTensor(theirs.value)) continue;
      fails(path, "'" + theirs.name + "' of member " + std::to_string(k) + " (" + members[k].path +
                      ") has other values");
    }
  }
}

std::string summary(const FusedModel& model) {
  const size_t k = model.k();
  return "the certificate holds for these " + std::to_string(k) +
         (k == 1 ? " member" : " members") +
         (model.step.gt(0).any().item<bool>() ? "; weights have been trained since"
                                              : ", and so do all weights");
}

/// What is wrong with the members as they were read, and as fusing rewrites them (proveUnifying).
std::string wrongEitherWay(std::vector<Member>& members,
                           const std::function<std::string()>& wrongWith) {
  if (wrongWith().empty()) return "";
  proveGroupsUnifying(members, /*mixed_momentum=*/true);
  return wrongWith();
}

std::string checkPartly(const std::string& path, const FusedModel& model,
                        std::vector<Member>& members) {
  const std::string wrong = wrongEitherWay(members, [&] { return checkParts(model, members); });
  if (!wrong.empty()) fails(path, wrong);
  checkOwnTensors(path, model, members);
  return summary(model);
}

}  // namespace

std::string checkFused(const std::string& path, std::vector<Member> members) {
  const FusedModel model = readFused(path);
  if (!model.info.contains("certificate")) fails(path, "it has no certificate");
  if (model.k() != members.size()) {
    fails(path, "it has " + std::to_string(model.k()) + " members, and " +
                    std::to_string(members.size()) + " are given");
  }
  if (!model.partial.empty()) return checkPartly(path, model, members);
  const Certificate certificate = certificateFromJson(model.info["certificate"]);
  FaultPlace fault;
  const std::string wrong =
      wrongEitherWay(members, [&] { return checkCertificate(certificate, members, &fault); });
  if (!wrong.empty()) refuseCertificate(path, wrong, fault, members);
  const std::vector<VaryingNumber> numbers = varyingNumbers(certificate, members[0]);
  checkGraphs(path, model, numbers, members[0]);
  checkNumbers(path, model, numbers);
  checkTensors(path, model, certificate, members);
  return summary(model);
}

}  // namespace chorus
