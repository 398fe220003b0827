#include "lib/export/partial_json.h"

#include "lib/export/slot_json.h"
#include "lib/support/packed_name.h"

namespace chorus {

using nlohmann::json;

namespace {

json tensorJson(const OwnTensor& tensor) {
  json value = slotJson(tensor.slot);
  value["in"] = tensor.in;
  value["sizes"] = tensor.sizes;
  value["packed"] = tensor.packed;
  return value;
}

OwnTensor tensorFrom(const json& value, const FusedModel& model) {
  OwnTensor tensor;
  tensor.slot = slotFrom(value);
  tensor.in = value.at("in").get<size_t>();
  tensor.sizes = value.at("sizes").get<std::vector<int64_t>>();
  tensor.packed = value.at("packed").get<bool>();
  if (model.prototype.slots.at(tensor.in).role != tensor.slot.role)
    throw std::runtime_error("a tensor in a slot of another role");
  return tensor;
}

}  // namespace

json partialJson(const std::vector<PartialMember>& partial) {
  json list = json::array();
  for (const PartialMember& member : partial) {
    json tensors = json::array();
    for (const OwnTensor& tensor : member.tensors) tensors.push_back(tensorJson(tensor));
    list.push_back({{"variant", member.variant},
                    {"traced", member.traced},
                    {"modules", modulesJson(member.modules)},
                    {"tensors", tensors}});
  }
  return list;
}

std::vector<PartialMember> partialFrom(const json& value, const FusedModel& model) {
  std::vector<PartialMember> partial;
  for (const json& entry : value) {
    PartialMember member;
    member.variant = entry.at("variant").get<size_t>();
    member.traced = entry.at("traced").get<bool>();
    for (const json& tensor : entry.at("tensors"))
      member.tensors.push_back(tensorFrom(tensor, model));
    member.modules = modulesFrom(entry.at("modules"));
    partial.push_back(std::move(member));
  }
  if (!partial.empty() && partial.size() != model.k())
    throw std::runtime_error("\"partial\" is not for all members");
  if (variantsOf(partial) > 100'000) throw std::runtime_error("a variant is out of bounds");
  return partial;
}

size_t variantsOf(const std::vector<PartialMember>& partial) {
  size_t variants = 0;
  for (const PartialMember& member : partial) variants = std::max(variants, member.variant + 1);
  return variants;
}

void checkPartial(const FusedModel& model, const std::string& path) {
  for (const PartialMember& member : model.partial) {
    for (const OwnTensor& own : member.tensors) {
      const at::Tensor& tensor = model.tensors[own.in];
      const at::IntArrayRef sizes =
          model.stacked[own.in] ? tensor.sizes().slice(1) : tensor.sizes();
      bool fits = own.packed == isPackedName(model.prototype.slots[own.in].name);
      int64_t numel = 1;
      for (const int64_t size : own.sizes) {
        fits = fits && size >= 0 && (size == 0 || numel <= tensor.numel() / size + 1);
        numel *= fits ? size : 0;
      }
      fits = fits && (own.packed ? sizes.size() == 1 && numel <= sizes[0]
                                 : sizes == at::IntArrayRef(own.sizes));
      if (fits) continue;
      throw Refused(
          error("the fused file is damaged: '" + own.slot.name + "' is not as chorus.json says",
                {path, "", "", ""}));
    }
  }
}

}  // namespace chorus
