#include "tools/chorus-opt/dump.h"

#include <regex>
#include "lib/support/role_name.h"

namespace chorus {
namespace {

// The parser of text IR takes letters, digits and '_', no digit first.
std::string asName(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  const bool digit = name.empty() || std::isdigit(static_cast<unsigned char>(name[0]));
  return digit ? "_" + name : name;
}

std::string slotLine(const TensorSlot& slot) {
  std::string line = "//   " + slot.name;
  for (const std::string& alias : slot.aliases) line += " = " + alias;
  line += std::string(": ") + roleName(slot.role);
  if (!slot.value.defined()) return line + "\n";
  line += " " + dtypeName(slot.value.scalar_type()) + "[";
  for (int64_t d = 0; d < slot.value.dim(); ++d) {
    line += (d ? "," : "") + std::to_string(slot.value.size(d));
  }
  line += "]";
  if (slot.requires_grad) line += " requires grad";
  return line + "\n";
}

// The printer writes ", scope: layer1.conv1" behind a node, which the parser does not take.
std::string scopesAsComments(const std::string& text) {
  static const std::regex scope(R"(, scope: ([^\n]*))");
  return std::regex_replace(text, scope, "  // $1");
}

std::string graphText(const CanonicalGraph& canonical, const Member& member) {
  CanonicalGraph named = canonical;
  named.graph = canonical.graph->copy();
  nameValues(named, member);
  std::string text;
  for (size_t slot : canonical.updates) text += "// updates " + member.slots[slot].name + "\n";
  return text + scopesAsComments(named.graph->toString(false));
}

}  // namespace

void nameValues(CanonicalGraph& canonical, const Member& member) {
  Graph& graph = *canonical.graph;
  for (size_t i = 0; i < canonical.n_inputs; ++i) {
    graph.inputs()[i]->setDebugName(canonical.n_inputs == 1 ? "input"
                                                            : "input" + std::to_string(i));
  }
  for (size_t i = 0; i < member.slots.size(); ++i) {
    canonical.slotInput(i)->setDebugName(asName(member.slots[i].name));
  }
  for (Node* node : graph.nodes()) {
    if (node->kind() == c10::prim::Constant) continue;
    for (Value* output : node->outputs())
      output->setDebugName(asName(node->kind().toUnqualString()));
  }
}

std::string dumpMember(const Member& member) {
  std::string text = "// " + member.name + "\n";
  for (size_t i = 0; i < member.inputs.size(); ++i) {
    text += "// input " + std::to_string(i) + ": " + member.inputs[i].toString() + "\n";
  }
  if (!member.slots.empty()) text += "// tensors:\n";
  for (const TensorSlot& slot : member.slots) text += slotLine(slot);
  text += "// train\n" + graphText(member.train, member);
  text += "// -----\n// eval\n" + graphText(member.eval, member);
  return text;
}

}  // namespace chorus
