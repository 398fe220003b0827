#include "tools/chorus-fuse/plan.h"

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

}  // namespace

std::string planText(const FusedModel& model, const std::vector<Decision>& decisions) {
  struct Row {
    size_t shared = 0, fused = 0, per_member = 0;
    std::string note;
  };
  std::map<std::string, Row> rows;
  for (const Decision& decision : decisions) {
    Row& row = rows[decision.op];
    if (decision.kind == Decision::Kind::Shared) ++row.shared;
    if (decision.kind == Decision::Kind::Fused) ++row.fused;
    if (decision.kind != Decision::Kind::PerMember) continue;
    ++row.per_member;
    if (!row.note.empty()) continue;  // the first one's
    const std::string place = placeText(decision.place);
    row.note = decision.reason + (place.empty() ? "" : ", first at " + place);
  }
  Table table{{"op", "fused", "shared", "per member", ""}, {}};
  for (const auto& [op, row] : rows) {
    table.rows.push_back({op, std::to_string(row.fused), std::to_string(row.shared),
                          std::to_string(row.per_member), row.note});
  }
  const Sizes sizes = sizesOf(model);
  std::string text = plural(model.k(), "member") + " proved equal, " +
                     std::to_string(sizes.parameters) + " parameters, " +
                     numberText(static_cast<double>(sizes.bytes) / 1e6, 3) + " MB in all\n";
  return text + format(table);
}

nlohmann::json planJson(const FusedModel& model, const std::vector<Decision>& decisions) {
  const Sizes sizes = sizesOf(model);
  nlohmann::json plan = {{"k", model.k()},
                         {"members", model.member_names},
                         {"parameters", sizes.parameters},
                         {"bytes", sizes.bytes},
                         {"nodes", nlohmann::json::array()}};
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
