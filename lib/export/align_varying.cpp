#include "lib/export/align_varying.h"

#include <torch/csrc/jit/ir/constants.h>

#include "chorus/equivalence.h"
#include "lib/export/varying.h"
#include "lib/support/hash.h"

namespace chorus {
namespace {

using Place = VaryingNumber::Place;
using Key = std::tuple<bool, size_t, size_t>;
using Places = std::map<Key, Place>;

Key keyOf(const Place& place) { return {place.eval, place.op, place.operand}; }

void addPlaces(const std::vector<VaryingNumber>& numbers, Places& places) {
  for (const VaryingNumber& number : numbers) {
    for (const Place& place : number.places) places.emplace(keyOf(place), place);
  }
}

/// [K], f64: the values at a place, whether they vary or not.
at::Tensor valuesAt(const FusedModel& model, const Place& place, bool& fractional) {
  for (const VaryingNumber& number : model.varying) {
    for (const Place& own : number.places) {
      if (keyOf(own) != keyOf(place)) continue;
      fractional = fractional || number.values.is_floating_point();
      return number.values;
    }
  }
  const CanonicalGraph& canonical = place.eval ? model.prototype.eval : model.prototype.train;
  const Node* node = varyingNode(*canonical.graph, place);
  const auto literal = torch::jit::toIValue(node->input(place.operand)).value();
  fractional = fractional || literal.isDouble();
  const auto k = static_cast<int64_t>(model.k());
  return literal.isInt() ? at::full({k}, literal.toInt(), at::kLong)
                         : at::full({k}, literal.toDouble(), at::kDouble);
}

void setNumbers(FusedModel& a, FusedModel& b, const Places& places) {
  std::vector<VaryingNumber> mine, theirs;
  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (const auto& [key, place] : places) {
    bool fractional = false;
    at::Tensor x = valuesAt(a, place, fractional), y = valuesAt(b, place, fractional);
    if (fractional) x = x.to(at::kDouble), y = y.to(at::kDouble);
    const auto [entry, is_new] =
        known.emplace(std::pair{hashTensor(x), hashTensor(y)}, mine.size());
    if (is_new) mine.push_back({x, {}}), theirs.push_back({y, {}});
    mine[entry->second].places.push_back(place);
    theirs[entry->second].places.push_back(place);
  }
  a.varying = std::move(mine);
  b.varying = std::move(theirs);
}

void stack(FusedModel& model, size_t slot) {
  if (model.stacked[slot]) return;
  std::vector<int64_t> sizes = model.tensors[slot].sizes().vec();
  sizes.insert(sizes.begin(), static_cast<int64_t>(model.k()));
  model.tensors[slot] = model.tensors[slot].detach().expand(sizes).clone();
  model.stacked[slot] = true;
}

}  // namespace

Member unfusedMember(const FusedModel& model, size_t k) {
  Member member = model.prototype;
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const at::Tensor tensor = model.tensors[i].detach();
    member.slots[i].value = model.stacked[i] ? tensor.select(0, static_cast<int64_t>(k)) : tensor;
  }
  for (const bool eval : {false, true}) {
    CanonicalGraph& canonical = eval ? member.eval : member.train;
    canonical.graph = canonical.graph->copy();
    writeNumbers(*canonical.graph, model.varying, eval, k);
  }
  return member;
}

void alignVarying(FusedModel& a, FusedModel& b) {
  const std::vector<Member> firsts = {unfusedMember(a, 0), unfusedMember(b, 0)};
  if (structuralHash(firsts[0]) != structuralHash(firsts[1])) return;
  const std::vector<ProvedGroup> groups = proveGroups(firsts);
  if (groups.size() != 1) return;
  const Certificate& certificate = groups[0].certificate;
  if (certificate.members[0].slots != certificate.members[1].slots) return;
  Places places;
  addPlaces(a.varying, places);
  addPlaces(b.varying, places);
  addPlaces(varyingNumbers(certificate, firsts[0]), places);
  setNumbers(a, b, places);
  b.prototype.train = a.prototype.train;
  b.prototype.eval = a.prototype.eval;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.stacked[i] && b.stacked[i]) continue;
    const bool shared = !a.stacked[i] && !b.stacked[i];
    if (shared && hashTensor(a.tensors[i]) == hashTensor(b.tensors[i])) continue;
    stack(a, i);
    stack(b, i);
  }
}

}  // namespace chorus
