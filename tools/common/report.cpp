#include "tools/common/report.h"

#include <iostream>

namespace chorus {
namespace {

Severity least_severe = Severity::Remark;

}  // namespace

void setLogLevel(const std::string& name) {
  least_severe = name == "error"     ? Severity::Error
                 : name == "warning" ? Severity::Warning
                                     : Severity::Remark;
}

void say(const Message& message) {
  if (message.severity >= least_severe) std::cerr << format(message) << std::flush;
}

void say(const Diagnostics& diagnostics) {
  for (const Message& message : diagnostics.messages()) say(message);
}

}  // namespace chorus
