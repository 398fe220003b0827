#include "tools/common/report.h"

#include <iostream>

namespace chorus {
namespace {

Severity least_severe = Severity::Remark;
std::function<void(const Message&)> listener = [](const Message& message) {
  std::cerr << format(message) << std::flush;
};

}  // namespace

void setLogLevel(const std::string& name) {
  least_severe = name == "error"     ? Severity::Error
                 : name == "warning" ? Severity::Warning
                                     : Severity::Remark;
}

void setListener(std::function<void(const Message&)> heard_by) { listener = std::move(heard_by); }

void say(const Message& message) {
  if (message.severity >= least_severe) listener(message);
}

void say(const Diagnostics& diagnostics) {
  for (const Message& message : diagnostics.messages()) say(message);
}

}  // namespace chorus
