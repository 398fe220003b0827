// The frame of each tool's main.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace chorus {

/// An argument as a shell reads it back.
std::string quotedForShell(const std::string& argument);

/// Sets LibTorch's process switches, runs `body` with the arguments behind the program's name, and
/// turns what it throws into messages on standard error and an exit code:
///
///     Refused               its messages; 1, 2, 3 or 70
///     no memory             an error; 1
///     any other exception   internal error; 70, with a reproducer file in the current folder
///
/// Until `body` takes the signals itself, SIGINT and SIGTERM remove temporary files and end the
/// process with 130.
int runTool(const std::string& name, int argc, char** argv,
            const std::function<int(const std::vector<std::string>&)>& body);

}  // namespace chorus
