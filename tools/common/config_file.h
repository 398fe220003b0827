// `--config RUN.json` and `--print-config`: the options of a run as a JSON object.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace chorus {

/// Reads a JSON object whose keys are option names (without dashes in front; `_` may stand for
/// `-`). Values: a number or string; true or false for flags; a list for repeatable options, or for
/// "one value or K" (joined by commas; lists of pairs by semicolons). null leaves the option out.
class JsonConfig : public CLI::Config {
 public:
  explicit JsonConfig(const CLI::App& app) : app_(app) {}
  /// Throws Refused (usage) on a file that is not such an object, and on unknown names, with the
  /// nearest.
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  std::string to_config(const CLI::App* app, bool, bool, std::string) const override;

 private:
  const CLI::App& app_;
};

/// The options that were given, in the form that --config reads.
nlohmann::ordered_json givenOptions(const CLI::App& app);

}  // namespace chorus
