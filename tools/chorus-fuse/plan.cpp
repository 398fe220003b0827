#include "tools/chorus-fuse/plan.h"

#include "lib/export/varying.h"
#include "tools/chorus-fuse/partial_parts.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

const char* word(Decision::Kind kind) {
  switch (kind) {
    case Decision::Kind::Shared:
      return "shared";
    case Decision::Kind::Fused:
      return "fused";
    case Decision::Kind::PerMember:
      return "per member";
    case Decision::Kind::Apart:
      return "apart";
  }
  return "";
}

std::string placeText(const Place& place) {
  if (place.source.empty()) return place.module_path;
  return place.source + (place.module_path.empty() ? "" : " (" + place.module_path + ")");
}

struct Sizes {
  int64_t parameters = 0;  ///< numbers, of all members
  int64_t bytes = 0;       ///< of all tensors
};

Sizes sizesOf(const FusedModel& model) {
  Sizes sizes;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const at::Tensor& tensor = model.tensors[i];
    if (model.prototype.slots[i].role == Role::Parameter) sizes.parameters += tensor.numel();
    sizes.bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return sizes;
}

std::string plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string valueText(const at::Tensor& value) {
  if (!value.is_floating_point()) return std::to_string(value.item<int64_t>());
  return numberText(value.item<double>(), 6);
}

/// "varies: dropout 'p': 0.1, 0.2, 0.5": at most eight values.
std::string variesText(const FusedModel& model) {
  std::string text;
  for (const VaryingNumber& number : model.varying) {
    text += "varies: " + varyingTitle(model, number) + ": ";
    const int64_t shown = std::min<int64_t>(number.values.numel(), 8);
    for (int64_t k = 0; k < shown; ++k) text += (k ? ", " : "") + valueText(number.values[k]);
    text += shown < number.values.numel() ? ", ...\n" : "\n";
  }
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (slot.role == Role::Constant && model.stacked[i])
      text += "varies: constant tensor '" + slot.name + "'\n";
  }
  return text;
}

nlohmann::json varyingJson(const FusedModel& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const VaryingNumber& number : model.varying) {
    nlohmann::json values = nlohmann::json::array();
    for (int64_t k = 0; k < number.values.numel(); ++k)
      values.push_back(valueText(number.values[k]));
    list.push_back({{"title", varyingTitle(model, number)}, {"values", values}});
  }
  return list;
}

std::vector<std::string> sharedNames(const FusedModel& model) {
  std::vector<std::string> names;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (slot.role != Role::Constant && !model.stacked[i]) names.push_back(slot.name);
  }
  return names;
}

std::string sharedText(const FusedModel& model) {
  const std::vector<std::string> names = sharedNames(model);
  if (names.empty()) return "";
  return plural(names.size(), "tensor") + " shared by all members, e.g. '" + names[0] + "'\n";
}

}  // namespace

std::string planText(const FusedModel& model, const std::vector<Decision>& decisions,
                     const std::optional<Estimate>& step) {
  struct Row {
    size_t shared = 0, fused = 0, per_member = 0, apart = 0;
    std::string note;
  };
  std::map<std::string, Row> rows;
  for (const Decision& decision : decisions) {
    Row& row = rows[decision.op];
    if (decision.kind == Decision::Kind::Shared) ++row.shared;
    if (decision.kind == Decision::Kind::Fused) ++row.fused;
    if (decision.kind == Decision::Kind::Apart) ++row.apart;
    if (decision.kind != Decision::Kind::PerMember && decision.kind != Decision::Kind::Apart)
      continue;
    row.per_member += decision.kind == Decision::Kind::PerMember;
    if (!row.note.empty()) continue;  // the first one's
    const std::string place = placeText(decision.place);
    row.note = decision.reason + (place.empty() ? "" : ", first at " + place);
  }
  Table table{{"op", "fused", "shared", "per member", ""}, {}};
  if (!model.partial.empty()) table.header.insert(table.header.begin() + 4, "apart");
  for (const auto& [op, row] : rows) {
    table.rows.push_back({op, std::to_string(row.fused), std::to_string(row.shared),
                          std::to_string(row.per_member), row.note});
    if (!model.partial.empty())
      table.rows.back().insert(table.rows.back().begin() + 4, std::to_string(row.apart));
  }
  const Sizes sizes = sizesOf(model);
  const std::string proved =
      model.partial.empty() ? " proved equal, " : " proved equal but for places that differ, ";
  std::string text = plural(model.k(), "member") + proved + std::to_string(sizes.parameters) +
                     " parameters, " + numberText(static_cast<double>(sizes.bytes) / 1e6, 3) +
                     " MB in all\n" + partialText(model);
  text += variesText(model) + sharedText(model);
  return text + (step ? toText(*step) : "") + format(table);
}

nlohmann::json planJson(const FusedModel& model, const std::vector<Decision>& decisions,
                        const std::optional<Estimate>& step) {
  const Sizes sizes = sizesOf(model);
  nlohmann::json plan = {{"k", model.k()},
                         {"members", model.member_names},
                         {"parameters", sizes.parameters},
                         {"bytes", sizes.bytes},
                         {"varying", varyingJson(model)},
                         {"shared", sharedNames(model)},
                         {"nodes", nlohmann::json::array()}};
  if (!model.partial.empty()) plan["partial"] = model.info.at("partial");
  if (step) plan["estimate"] = toJson(*step);
  for (const Decision& decision : decisions) {
    nlohmann::json node = {
        {"op", decision.op}, {"kind", word(decision.kind)}, {"family", decision.family}};
    if (!decision.reason.empty()) node["reason"] = decision.reason;
    if (!decision.place.source.empty()) node["source"] = decision.place.source;
    if (!decision.place.module_path.empty()) node["module"] = decision.place.module_path;
    plan["nodes"].push_back(node);
  }
  return plan;
}

}  // namespace chorus
