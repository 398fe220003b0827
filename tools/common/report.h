// Messages on standard error, as --log-level allows.
#pragma once

#include <string>

#include "chorus/diagnostics.h"

namespace chorus {

/// "error", "warning" or "remark" (default): the least severe kind that `say` prints. For the whole
/// process.
void setLogLevel(const std::string& name);

/// Prints the message to standard error if the log level lets it pass.
void say(const Message& message);
void say(const Diagnostics& diagnostics);

}  // namespace chorus
