// Member names and manifest entries come from files that may be hostile and become names of files.
#pragma once

#include <string>

#include "chorus/diagnostics.h"

namespace chorus {

/// "" where `name` is one safe path component: not empty, no '/', not '.' or '..', no control
/// characters, no leading
/// '-', at most 200 bytes. Otherwise what is wrong, e.g. "contains '/'".
std::string nameProblem(const std::string& name);

/// Throws Refused (error at `place`): "member name '../x' contains '/'". `what` is "member name",
/// "manifest entry", ...
void requireSafeName(const std::string& what, const std::string& name, const Place& place = {});

/// `text` with control characters, quotes and backslashes escaped, for messages that quote names of
/// others.
std::string printable(const std::string& text);

}  // namespace chorus
