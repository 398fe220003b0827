#include "chorus/checker.h"

#include <algorithm>
#include <set>

#include "lib/equivalence/checker/tables.h"

namespace chorus {
namespace checker {
namespace {

/// The attributes that the certificate lists, by mode, node of member 0, operand.
using Listed = std::map<std::array<size_t, 3>, const VaryingAttribute*>;

struct Pairing {
  const Member& a;
  const Member& b;
  const Table& table_a;
  const Table& table_b;
  const std::vector<uint32_t>& nodes;
  const std::vector<uint32_t>& slots;
  const Listed& listed;
  size_t k, mode;
  mutable size_t met = 0;  ///< how many of the listed
};

bool sameBytes(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().resolve_conj().resolve_neg().cpu().contiguous();
  const at::Tensor y = b.detach().resolve_conj().resolve_neg().cpu().contiguous();
  const auto* bytes = static_cast<const char*>(x.const_data_ptr());
  return x.nbytes() == y.nbytes() &&
         std::equal(bytes, bytes + x.nbytes(), static_cast<const char*>(y.const_data_ptr()));
}

/// Whether value `a` of member 0 and value `b` correspond under the map.
bool correspond(const Pairing& p, const Value* a, const Value* b) {
  if (p.table_a.isInput(a) != p.table_b.isInput(b)) return false;
  if (p.table_a.isInput(a)) {
    const size_t n = p.a.inputs.size();
    if (a->offset() < n || b->offset() < n) return a->offset() == b->offset();
    return p.slots[a->offset() - n] == b->offset() - n;
  }
  const NodeFacts& maker_a = p.table_a.maker(a);
  const NodeFacts& maker_b = p.table_b.maker(b);
  if (maker_a.literal || maker_b.literal) {
    return maker_a.literal && maker_b.literal && maker_a.text == maker_b.text;
  }
  const uint32_t image = p.nodes[p.table_a.index_of.at(a->node())];
  return image == p.table_b.index_of.at(b->node()) && a->offset() == b->offset();
}

/// C4: a number that varies is the one that is listed.
bool valuesAreListed(const Pairing& p, const VaryingAttribute& attribute, const NodeFacts& a,
                     const NodeFacts& b) {
  ++p.met;
  const size_t i = attribute.operand;
  if (!a.varying[i] || !b.varying[i]) return false;
  const std::string& mine = attribute.values.at(p.k);
  return p.table_a.maker(a.operands[i]).text == attribute.values[0] &&
         p.table_b.maker(b.operands[i]).text == mine &&
         (mine[0] == attribute.values[0][0] || (a.floating && b.floating));
}

/// What is wrong with a node's image: "" for nothing.
struct Wrong {
  std::string text;
  std::optional<size_t> operand{};
};

Wrong wrongOperand(const Pairing& p, size_t n, const NodeFacts& a, const NodeFacts& b) {
  const auto &left = a.operands, &right = b.operands;
  if (left.size() != right.size()) return {"other number of operands"};
  const bool any_order = a.commutative && b.commutative;
  for (size_t i = any_order ? 2 : 0; i < left.size(); ++i) {
    const auto listed = p.listed.find({p.mode, n, i});
    const bool varies = listed != p.listed.end();
    const bool same =
        varies ? valuesAreListed(p, *listed->second, a, b) : correspond(p, left[i], right[i]);
    if (!same) return {c10::str("other operand ", i), i};
  }
  const auto fit = [&](size_t i, size_t j) { return correspond(p, left[i], right[j]); };
  if (!any_order || (fit(0, 0) && fit(1, 1)) || (fit(0, 1) && fit(1, 0))) return {};
  return {"other operands"};
}

Wrong wrongImage(const Pairing& p, size_t n, std::vector<char>& taken) {
  const NodeFacts& a = p.table_a.nodes[n];
  const uint32_t image = p.nodes[n];
  if (a.literal || !a.live) {
    const auto& known = p.table_b.first_literal;
    const bool found = a.literal && known.contains(a.text);
    const bool right = image == (found ? known.at(a.text) : kNoNode);
    return {right ? "" : "not the first equal constant"};
  }
  if (image >= p.table_b.nodes.size()) return {"mapped to no node"};
  const NodeFacts& b = p.table_b.nodes[image];
  if (std::exchange(taken[image], 1)) return {"its image is taken"};
  if (!b.live || b.literal || a.text != b.text)
    return {c10::str(a.text, " is mapped to ", b.literal ? "a constant" : b.text.c_str())};
  if (a.node->outputs().size() != b.node->outputs().size()) return {"other number of outputs"};
  return wrongOperand(p, n, a, b);
}

/// Fusion contract C2, C3, C4, C5: the node map is one to one and preserves ops, attributes and
/// wiring.
void checkNodes(const Pairing& p, const std::string& where) {
  require(p.nodes.size() == p.table_a.nodes.size(), {where, "the map has the wrong length"});
  std::vector<char> taken(p.table_b.nodes.size());
  for (const bool literals : {false, true}) {  // ops say more than constants
    for (size_t n = 0; n < p.nodes.size(); ++n) {
      const NodeFacts& a = p.table_a.nodes[n];
      const Wrong wrong = a.literal == literals ? wrongImage(p, n, taken) : Wrong{};
      if (wrong.text.empty()) continue;
      throw Rejected(c10::str(where, "node ", n, " (", a.text, "): ", wrong.text),
                     FaultPlace{p.k, p.mode == 1, n, wrong.operand});
    }
  }
  for (size_t n = 0; n < taken.size(); ++n) {
    const NodeFacts& b = p.table_b.nodes[n];
    require(taken[n] || b.literal || !b.live, {where, "it has nodes that nothing maps to"});
  }
}

/// C10, C11: outputs in order; an update of a slot is the update of its partner.
void checkResults(const Pairing& p, const std::string& where) {
  const CanonicalGraph& a = *p.table_a.canonical;
  const CanonicalGraph& b = *p.table_b.canonical;
  require(a.n_outputs == b.n_outputs, {where, "other number of outputs"});
  for (size_t j = 0; j < a.n_outputs; ++j) {
    require(correspond(p, a.graph->outputs()[j], b.graph->outputs()[j]),
            {where, "output ", std::to_string(j), " does not correspond"});
  }
  require(p.table_a.update_of.size() == p.table_b.update_of.size(), {where, "other updates"});
  for (const auto& [slot, value] : p.table_a.update_of) {
    const auto partner = p.table_b.update_of.find(p.slots[slot]);
    require(partner != p.table_b.update_of.end() && correspond(p, value, partner->second),
            {where, "the update of slot ", std::to_string(slot), " does not correspond"});
  }
}

/// C6, C7, C8, C9: slots one to one, of equal shape, dtype, role, gradient flag and number of
/// names; constants of equal bytes unless they are listed. Counts in `differing` those that do.
void checkSlots(const Member& a, const Member& b, const std::vector<uint32_t>& map,
                const std::vector<uint32_t>& listed, std::vector<size_t>& differing) {
  require(a.slots.size() == b.slots.size() && map.size() == a.slots.size(),
          {"other number of slots"});
  std::vector<char> taken(b.slots.size());
  for (size_t s = 0; s < map.size(); ++s) {
    const std::string at = c10::str("slot ", s, " ('", a.slots[s].name, "'): ");
    require(map[s] < b.slots.size() && !std::exchange(taken[map[s]], 1), {at, "not one to one"});
    const TensorSlot& x = a.slots[s];
    const TensorSlot& y = b.slots[map[s]];
    require(x.value.defined() && y.value.defined(), {at, "no tensor"});
    require(x.role == y.role, {at, "other role"});
    require(x.value.scalar_type() == y.value.scalar_type(), {at, "other dtype"});
    require(x.value.sizes() == y.value.sizes(), {at, "other shape"});
    require(x.requires_grad == y.requires_grad, {at, "other requires_grad"});
    require(x.aliases.size() == y.aliases.size(), {at, "other number of names"});
    if (x.role != Role::Constant || sameBytes(x.value, y.value)) continue;
    require(std::binary_search(listed.begin(), listed.end(), s), {at, "other bytes"});
    ++differing[s];
  }
}

/// C1, C10.
void checkInterface(const Member& a, const Member& b) {
  require(a.inputs.size() == b.inputs.size(), {"other number of inputs"});
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const InputSpec &x = a.inputs[i], &y = b.inputs[i];
    const bool same = x.dtype == y.dtype && x.sizes == y.sizes && x.bound == y.bound;
    require(same, {"input ", std::to_string(i), " has another dtype, shape or bound"});
  }
  require(a.output == b.output, {"the results are arranged differently"});
}

void checkMember(const Certificate& certificate, const std::vector<Member>& members, size_t k,
                 const Table& train, const Table& eval, const Listed& listed,
                 std::vector<size_t>& differing) {
  const Member& a = members[0];
  const Member& b = members[k];
  const MemberMap& map = certificate.members[k];
  checkInterface(a, b);
  checkSlots(a, b, map.slots, certificate.constants, differing);
  const Table train_b = tableOf(b, b.train);
  const Table eval_b = tableOf(b, b.eval);
  const Pairing in_train{a, b, train, train_b, map.train_nodes, map.slots, listed, k, 0};
  const Pairing in_eval{a, b, eval, eval_b, map.eval_nodes, map.slots, listed, k, 1};
  checkNodes(in_train, "train graph: ");
  checkResults(in_train, "train graph: ");
  checkNodes(in_eval, "eval graph: ");
  checkResults(in_eval, "eval graph: ");
  require(in_train.met + in_eval.met == listed.size(), {"an attribute where there is none"});
  uint64_t hash = 0;
  for (const uint32_t slot : map.slots)
    if (b.slots[slot].role == Role::Constant) hash = mix(hash, hashOf(b.slots[slot].value));
  require(map.tensor_hash == hash, {"other hash of the constants"});
}

/// Attributes and constants are listed in order, once, and only if they differ.
void checkLists(const Certificate& certificate, const Listed& listed,
                const std::vector<size_t>& differing) {
  require(listed.size() == certificate.attributes.size(), {"an attribute is listed twice"});
  size_t i = 0;
  for (const auto& [place, attribute] : listed) {
    const std::set<std::string> values(attribute->values.begin(), attribute->values.end());
    require(attribute == &certificate.attributes[i++] && values.size() > 1,
            {"an attribute is out of order, or the same in all members"});
  }
  for (size_t j = 0; j < certificate.constants.size(); ++j) {
    const uint32_t slot = certificate.constants[j];
    const bool ascending = j == 0 || certificate.constants[j - 1] < slot;
    require(ascending && slot < differing.size() && differing[slot] > 0,
            {"a constant is out of order, or the same in all members"});
  }
}

}  // namespace
}  // namespace checker

std::string checkCertificate(const Certificate& certificate, const std::vector<Member>& members,
                             FaultPlace* place) {
  using namespace checker;
  if (members.empty() || certificate.members.size() != members.size()) {
    return "the certificate is for " + std::to_string(certificate.members.size()) +
           " members, not " + std::to_string(members.size());
  }
  size_t k = 0;
  try {
    const Table train = tableOf(members[0], members[0].train);
    const Table eval = tableOf(members[0], members[0].eval);
    std::vector<size_t> differing(members[0].slots.size());
    Listed listed;
    for (const VaryingAttribute& at : certificate.attributes) {
      require(at.values.size() == members.size(), {"an attribute has a wrong number of values"});
      listed[{at.mode, at.node, at.operand}] = &at;
    }
    for (; k < members.size(); ++k)
      checkMember(certificate, members, k, train, eval, listed, differing);
    k = 0;
    checkLists(certificate, listed, differing);
    for (size_t s = 0; s < members[0].slots.size(); ++s) {
      require(certificate.members[0].slots[s] == s, {"member 0's own map is not the identity"});
    }
  } catch (const Rejected& reason) {
    if (place != nullptr) *place = reason.place.value_or(FaultPlace{k});
    return "member " + std::to_string(k) + ": " + reason.what();
  }
  return "";
}

}  // namespace chorus
