#include "tools/common/command_line.h"

#include <torch/version.h>

#include <charconv>
#include <iostream>
#include <set>

#include "tools/common/config_file.h"
#include "tools/common/report.h"

namespace chorus {
namespace {

constexpr const char* kGeneral = "General";

// "--lr=3" -> "--lr", "-ofile" -> "-o"; "" where CLI11 takes the argument for a value.
std::string optionName(const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') return "";
  if (argument[1] == '-') return argument.substr(0, argument.find('='));
  const bool letter = std::isalpha(static_cast<unsigned char>(argument[1])) != 0;
  return letter ? argument.substr(0, 2) : "";
}

std::vector<std::string> allNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

bool isRepeatable(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

// Before CLI11 sees them: it would take the value of an unknown option for a positional argument,
// and complain of another thing first.
void refuseUnknownAndDouble(CLI::App& app, const std::vector<std::string>& arguments) {
  std::set<const CLI::Option*> seen;
  for (const std::string& argument : arguments) {
    if (argument == "--") return;
    const std::string name = optionName(argument);
    if (name.empty()) continue;
    const CLI::Option* option = app.get_option_no_throw(name);
    if (!option) {
      const std::string near = nearest(name, allNames(app));
      Message message = usage("unknown option '" + name + "'" +
                              (near.empty() ? "" : "; did you mean '" + near + "'?"));
      if (near.empty()) message.helpWith(app.get_name() + " --help lists the options");
      throw Refused(message);
    }
    if (!seen.insert(option).second && !isRepeatable(*option)) {
      throw Refused(usage("option '" + name + "' is given twice"));
    }
  }
}

std::string before(const std::string& text, const std::string& separator) {
  return text.substr(0, text.find(separator));
}

Message translate(const CLI::ParseError& failure, const CLI::App& app) {
  const std::string what = failure.what();
  if (dynamic_cast<const CLI::RequiredError*>(&failure)) {
    const std::string name = before(what, " is required");
    const std::string kind = name.starts_with("-") ? "option" : "argument";
    return usage("missing " + kind + " '" + name + "'")
        .helpWith(app.get_name() + " --help shows how it is called");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&failure)) {
    return usage("option '" + before(what, ":") + "' needs a value");
  }
  if (dynamic_cast<const CLI::ConversionError*>(&failure)) {
    const size_t name = what.find(": "), value = what.find(" = ");
    if (name == std::string::npos || value == std::string::npos || value < name) return usage(what);
    return usage("'" + what.substr(value + 3) + "' is not a valid value of '" +
                 what.substr(name + 2, value - name - 2) + "'");
  }
  if (dynamic_cast<const CLI::FileError*>(&failure)) {
    return usage("--config: cannot read '" + before(what, " was not readable") + "'");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&failure)) {
    return usage("unexpected argument '" + app.remaining().front() + "'");
  }
  return usage(what);
}

}  // namespace

CommandLine::CommandLine(const std::string& name, const std::string& summary,
                         const std::string& examples)
    : app(summary, name) {
  std::string footer = "Examples:\n";
  for (const std::string& line : CLI::detail::split(examples, '\n')) footer += "  " + line + "\n";
  app.footer(footer +
             "Exit codes: 0 done, 1 input refused, 2 usage, 3 unsupported, 70 internal error, 130 "
             "interrupted");
}

// Called last, so that they stand last in --help.
void CommandLine::addGeneralOptions() {
  app.set_help_flag("-h,--help", "print this help")->group(kGeneral);
  app.set_version_flag("--version", app.get_name() + " " + versionText(), "print the versions")
      ->group(kGeneral);
  app.add_option("--log-level", log_level_, "least severe messages that are printed")
      ->check(oneOf({"error", "warning", "remark"}))
      ->capture_default_str()
      ->group(kGeneral);
  app.add_flag("--json", json, "results as JSON on standard output")->group(kGeneral);
  app.set_config("--config", "", "options by name from a JSON object")
      ->configurable(false)
      ->type_name("FILE")
      ->group(kGeneral);
  app.add_flag("--print-config", print_config_, "print the given options as JSON and stop")
      ->configurable(false)
      ->group(kGeneral);
  app.config_formatter(std::make_shared<JsonConfig>(app));
}

bool CommandLine::parse(const std::vector<std::string>& arguments) {
  addGeneralOptions();
  for (CLI::Option* option : app.get_options()) {
    if (isRepeatable(*option) && !option->get_positional()) option->allow_extra_args(false);
  }
  refuseUnknownAndDouble(app, arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& done) {
    std::cout << (dynamic_cast<const CLI::CallForVersion*>(&done) ? std::string(done.what()) + "\n"
                                                                  : app.help());
    return false;
  } catch (const CLI::ParseError& failure) {
    throw Refused(translate(failure, app));
  }
  setLogLevel(log_level_);
  if (print_config_) std::cout << givenOptions(app).dump(2) << "\n";
  return !print_config_;
}

CLI::Validator oneOf(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& value) -> std::string {
    if (std::find(names.begin(), names.end(), value) != names.end()) return "";
    const std::string near = nearest(value, names);
    return "'" + value + "' is not one of " + CLI::detail::join(names, ", ") +
           (near.empty() ? "" : "; did you mean '" + near + "'?");
  };
  return CLI::Validator(check, CLI::detail::join(names, "|"), "one of");
}

namespace {

template <class Number>
CLI::Validator numberWithin(Number least, Number most, const std::string& kind) {
  const auto check = [=](std::string& value) -> std::string {
    Number number{};
    const char* first = value.data() + (value.starts_with("+") ? 1 : 0);
    const char* last = value.data() + value.size();
    const auto [end, failure] = std::from_chars(first, last, number);
    const bool fits = failure == std::errc() && end == last && number >= least && number <= most;
    if (!fits) return "'" + value + "' is not an integer " + kind;
    value = std::to_string(number);
    return "";
  };
  return {check, "", "integer"};
}

}  // namespace

CLI::Validator integerFrom(int64_t least, int64_t most) {
  const bool open = most == std::numeric_limits<int64_t>::max();
  return numberWithin<int64_t>(least, most,
                               (open ? "of at least " : "from ") + std::to_string(least) +
                                   (open ? "" : " to " + std::to_string(most)));
}

CLI::Validator seedNumber() {
  return numberWithin<uint64_t>(0, std::numeric_limits<uint64_t>::max(), "from 0 to 2^64-1");
}

std::string versionText() { return CHORUS_VERSION " (LibTorch " TORCH_VERSION ")"; }

}  // namespace chorus
