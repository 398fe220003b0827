// "extra/chorus_member.json" of a plain archive: {"format", "seed", "inputs", "optimizer": {name,
// flags, values, groups}, "step", "state": {NAME: {"dtype", "sizes"}}}, and
// "extra/chorus_state.NAME": the elements of each state tensor, little-endian.
#include <nlohmann/json.hpp>

#include "chorus/fused_model.h"
#include "lib/export/alone.h"
#include "lib/export/state.h"
#include "lib/support/archive_record.h"

namespace chorus {

using nlohmann::json;

namespace {

constexpr int kFormat = 1;

json valuesJson(const std::map<std::string, std::vector<double>>& values, size_t k) {
  json object = json::object();
  for (const auto& [name, numbers] : values) object[name] = numbers.at(k);
  return object;
}

std::map<std::string, std::vector<double>> valuesFrom(const json& object) {
  std::map<std::string, std::vector<double>> values;
  for (const auto& [name, number] : object.items()) values[name] = {number.get<double>()};
  return values;
}

at::Tensor stateTensor(const std::string& path, const std::string& name, const json& value) {
  const auto dtype = dtypeFromName(value.at("dtype").get<std::string>());
  const auto sizes = value.at("sizes").get<std::vector<int64_t>>();
  const auto bytes = extraRecord(path, "chorus_state." + name);
  if (!dtype || !bytes) throw std::runtime_error("the state '" + name + "' is missing");
  const size_t width = c10::elementSize(*dtype);
  size_t count = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || static_cast<size_t>(size) > bytes->size()) {
      throw std::runtime_error("the state '" + name + "' has a wrong size");
    }
    count *= static_cast<size_t>(size);
    if (count > bytes->size()) throw std::runtime_error("the state '" + name + "' is cut off");
  }
  if (count * width != bytes->size()) {
    throw std::runtime_error("the state '" + name + "' has a wrong size");
  }
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(*dtype));
  std::memcpy(tensor.data_ptr(), bytes->data(), bytes->size());
  return tensor;
}

}  // namespace

std::map<std::string, std::string> memberRecord(const FusedModel& model, size_t k) {
  if (!model.partial.empty()) return memberRecord(memberAlone(model, k), 0);
  json record = {{"format", kFormat}, {"seed", std::to_string(model.member_seeds.at(k))}};
  for (const InputSpec& input : model.prototype.inputs)
    record["inputs"].push_back(input.toString());
  std::map<std::string, std::string> extra;
  const auto row = static_cast<int64_t>(k);
  const int64_t step = model.step.defined() ? model.step[row].item<int64_t>() : 0;
  if (model.optimizer && step > 0) {
    json groups = json::array();
    for (const ParameterGroup& group : model.optimizer->groups) {
      groups.push_back({{"parameters", group.parameters}, {"values", valuesJson(group.values, k)}});
    }
    record["optimizer"] = {{"name", model.optimizer->name},
                           {"flags", model.optimizer->flags},
                           {"values", valuesJson(model.optimizer->values, k)},
                           {"groups", groups}};
    record["step"] = step;
    for (const auto& [name, tensor] : optimizerState(model)) {
      const at::Tensor mine = tensor.detach().narrow(0, row, 1).cpu().contiguous();
      record["state"][name] = {{"dtype", dtypeName(mine.scalar_type())},
                               {"sizes", mine.sizes().vec()}};
      extra["chorus_state." + name] =
          std::string(static_cast<const char*>(mine.data_ptr()), mine.nbytes());
    }
  }
  extra["chorus_member.json"] = record.dump(1) + "\n";
  return extra;
}

MemberRecord readMemberRecord(const std::string& path) {
  MemberRecord record;
  const auto text = extraRecord(path, "chorus_member.json");
  if (!text) return record;
  const Place place{path, "", "", ""};
  try {
    const json value = json::parse(*text);
    if (value.at("format").get<int>() > kFormat) {
      throw Refused(error("the archive's record of its training is of a newer format", place));
    }
    record.seed = std::stoull(value.at("seed").get<std::string>());
    if (!value.contains("optimizer")) return record;
    const json& optimizer = value.at("optimizer");
    OptimizerSpec spec;
    spec.name = optimizer.at("name").get<std::string>();
    spec.flags = optimizer.at("flags").get<std::map<std::string, bool>>();
    spec.values = valuesFrom(optimizer.at("values"));
    for (const json& group : optimizer.at("groups")) {
      spec.groups.push_back(
          {group.at("parameters").get<std::vector<std::string>>(), valuesFrom(group.at("values"))});
    }
    record.optimizer = spec;
    record.step = value.at("step").get<int64_t>();
    if (!value.contains("state")) return record;
    for (const auto& [name, entry] : value.at("state").items()) {
      record.state[name] = stateTensor(path, name, entry);
    }
    return record;
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& failure) {
    throw Refused(
        error("the archive's record of its training is damaged", place).note(failure.what()));
  }
}

}  // namespace chorus
