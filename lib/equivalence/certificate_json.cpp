#include <nlohmann/json.hpp>

#include "chorus/equivalence.h"

namespace chorus {
namespace {

// JSON numbers lose bits beyond 2^53 in many readers.
std::string hexText(uint64_t value) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

uint64_t hexValue(const nlohmann::json& json) {
  const std::string& text = json.get_ref<const std::string&>();
  const bool digits =
      text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits) throw Refused(error("the certificate has '" + text + "' in place of a hash"));
  return std::stoull(text, nullptr, 16);
}

std::vector<uint32_t> indices(const nlohmann::json& json) {
  std::vector<uint32_t> result;
  for (const nlohmann::json& entry : json) {
    const int64_t index = entry.get<int64_t>();
    if (index < -1 || index >= kNoNode) {
      throw Refused(error("the certificate has the index " + std::to_string(index)));
    }
    result.push_back(index < 0 ? kNoNode : static_cast<uint32_t>(index));
  }
  return result;
}

nlohmann::json indicesToJson(const std::vector<uint32_t>& indices) {
  nlohmann::json json = nlohmann::json::array();
  for (const uint32_t index : indices) {
    json.push_back(index == kNoNode ? int64_t{-1} : static_cast<int64_t>(index));
  }
  return json;
}

nlohmann::json mapToJson(const MemberMap& map) {
  return {{"train_nodes", indicesToJson(map.train_nodes)},
          {"eval_nodes", indicesToJson(map.eval_nodes)},
          {"slots", indicesToJson(map.slots)},
          {"tensor_hash", hexText(map.tensor_hash)}};
}

MemberMap mapFromJson(const nlohmann::json& json) {
  return {indices(json.at("train_nodes")), indices(json.at("eval_nodes")),
          indices(json.at("slots")), hexValue(json.at("tensor_hash"))};
}

}  // namespace

nlohmann::json toJson(const Certificate& certificate) {
  // Most members have the same map: it is written once.
  nlohmann::json maps = nlohmann::json::array();
  nlohmann::json members = nlohmann::json::array();
  std::map<std::string, size_t> known;
  for (const MemberMap& map : certificate.members) {
    nlohmann::json json = mapToJson(map);
    const auto [entry, is_new] = known.emplace(json.dump(), maps.size());
    if (is_new) maps.push_back(std::move(json));
    members.push_back(entry->second);
  }
  nlohmann::json attributes = nlohmann::json::array();
  for (const VaryingAttribute& at : certificate.attributes) {
    attributes.push_back({{"mode", at.mode == 0 ? "train" : "eval"},
                          {"node", at.node},
                          {"operand", at.operand},
                          {"values", at.values}});
  }
  return {{"maps", std::move(maps)},
          {"members", std::move(members)},
          {"attributes", std::move(attributes)},
          {"constants", certificate.constants}};
}

Certificate certificateFromJson(const nlohmann::json& json) {
  try {
    Certificate certificate;
    std::vector<MemberMap> maps;
    for (const nlohmann::json& map : json.at("maps")) maps.push_back(mapFromJson(map));
    for (const nlohmann::json& member : json.at("members")) {
      certificate.members.push_back(maps.at(member.get<size_t>()));
    }
    for (const nlohmann::json& at : json.at("attributes")) {
      const std::string mode = at.at("mode").get<std::string>();
      if (mode != "train" && mode != "eval") {
        throw Refused(error("the certificate names the mode '" + mode + "'"));
      }
      certificate.attributes.push_back({mode == "eval", at.at("node").get<uint32_t>(),
                                        at.at("operand").get<uint32_t>(),
                                        at.at("values").get<std::vector<std::string>>()});
    }
    certificate.constants = json.at("constants").get<std::vector<uint32_t>>();
    return certificate;
  } catch (const nlohmann::json::exception& problem) {
    throw Refused(error(std::string("the certificate is damaged: ") + problem.what()));
  } catch (const std::out_of_range&) {
    throw Refused(error("the certificate is damaged: a member names a map that is not there"));
  }
}

}  // namespace chorus
