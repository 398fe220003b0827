#include "tools/common/config_file.h"

#include <iterator>
#include <set>

#include "chorus/diagnostics.h"
#include "tools/common/json_text.h"

namespace chorus {
namespace {

using nlohmann::json;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string shortestName(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return option.get_lnames().front();
  return option.get_snames().empty() ? lower(option.get_name(true)) : option.get_snames().front();
}

std::vector<std::string> configurableNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_configurable()) names.push_back(shortestName(*option));
  }
  return names;
}

// The name as CLI11 knows it ("" where it does not) of a key of the file.
std::string resolve(const CLI::App& app, std::string key) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() && lower(option->get_name(true)) == lower(key))
      return option->get_name(true);
  }
  std::replace(key.begin(), key.end(), '_', '-');
  return app.get_option_no_throw((key.size() == 1 ? "-" : "--") + key) ? key : "";
}

const CLI::Option& optionOf(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw("--" + name);
  if (!option) option = app.get_option_no_throw("-" + name);
  return option ? *option : *app.get_option(name);
}

std::string scalarText(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string joined(const json& list, const std::string& separator) {
  std::string text;
  for (const json& value : list) {
    if (!text.empty()) text += separator;
    text += value.is_array() ? joined(value, ",") : scalarText(value);
  }
  return text;
}

std::vector<std::string> inputsOf(const CLI::Option& option, const json& value) {
  if (!value.is_array()) return {scalarText(value)};
  if (option.get_items_expected_max() <= 1) {
    const bool pairs = !value.empty() && value.front().is_array();
    return {joined(value, pairs ? ";" : ",")};
  }
  std::vector<std::string> inputs;
  for (const json& entry : value) inputs.push_back(scalarText(entry));
  return inputs;
}

}  // namespace

std::vector<CLI::ConfigItem> JsonConfig::from_config(std::istream& in) const {
  const std::string file = app_.get_config_ptr()->as<std::string>();
  const json object =
      parseJsonText(file, {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()});
  if (!object.is_object())
    throw Refused(usage("--config: '" + file + "' does not hold a JSON object"));
  std::vector<CLI::ConfigItem> items;
  std::set<const CLI::Option*> seen;
  for (const auto& [key, value] : object.items()) {
    const std::string name = resolve(app_, key);
    if (name.empty() || !optionOf(app_, name).get_configurable()) {
      const std::string near = nearest(key, configurableNames(app_));
      throw Refused(usage("--config: '" + file + "' names an unknown option '" + key + "'" +
                          (near.empty() ? "" : "; did you mean '" + near + "'?")));
    }
    if (value.is_object()) {
      throw Refused(usage("--config: '" + file + "': '" + key +
                          "' is an object; a value or a list is needed"));
    }
    const CLI::Option& option = optionOf(app_, name);
    if (!seen.insert(&option).second) {
      throw Refused(usage("--config: '" + file + "' gives '" + shortestName(option) +
                          "' twice, the second time as '" + key + "'"));
    }
    const bool flag = option.get_items_expected_max() == 0 || option.get_expected_min() == 0;
    if (value.is_null() || (flag && value == json(false))) continue;
    items.push_back({{}, name, inputsOf(option, value)});
  }
  return items;
}

std::string JsonConfig::to_config(const CLI::App* app, bool, bool, std::string) const {
  return givenOptions(*app).dump(2);
}

nlohmann::ordered_json givenOptions(const CLI::App& app) {
  // Text that is one JSON number or truth value is written as such; it reads back as the same text.
  const auto value = [](const std::string& text) -> nlohmann::ordered_json {
    const json parsed = json::parse(text, nullptr, false);
    const bool plain = parsed.is_number() || parsed.is_boolean();
    return plain && parsed.dump() == text ? nlohmann::ordered_json(parsed)
                                          : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || !option->get_configurable()) continue;
    const std::vector<std::string>& results = option->results();
    nlohmann::ordered_json& entry = object[shortestName(*option)];
    if (option->get_items_expected_max() <= 1) {
      entry = value(results.front());
      continue;
    }
    entry = nlohmann::ordered_json::array();
    for (const std::string& result : results) entry.push_back(value(result));
  }
  return object;
}

}  // namespace chorus
