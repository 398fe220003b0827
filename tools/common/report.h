// Messages on standard error, as --log-level allows.
#pragma once

#include <functional>
#include <string>

#include "chorus/diagnostics.h"

namespace chorus {

/// "error", "warning" or "remark" (default): the least severe kind that `say` prints. For the whole
/// process.
void setLogLevel(const std::string& name);

/// Who hears what `say` lets pass instead of standard error; for the whole process.
void setListener(std::function<void(const Message&)> listener);

/// Prints the message to standard error if the log level lets it pass.
void say(const Message& message);
void say(const Diagnostics& diagnostics);

}  // namespace chorus
