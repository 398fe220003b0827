// The operators that an archive's code may use.
#pragma once

#include <string>

namespace chorus::scan {

/// Operators that only a grad-mode class, or a fused file of ours, may use.
bool isGradOperator(const std::string& qualified_name);

/// Why an operator outside the list is dangerous, as the end of "uses the operator 'aten::save',
/// which ...".
std::string whyRefused(const std::string& qualified_name);

}  // namespace chorus::scan
