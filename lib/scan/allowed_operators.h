// The operators that an archive's code may use.
#pragma once

#include <string>

namespace chorus::scan {

/// The operators of a class that switches the grad mode; it may use no others.
bool isGradModeOperator(const std::string& qualified_name);

/// Operators that a fused file of ours may use beside those of the list: it holds its own training step.
bool isTrainingOperator(const std::string& qualified_name);

/// Why an operator outside the list is dangerous, as the end of "uses the operator 'aten::save',
/// which ...".
std::string whyRefused(const std::string& qualified_name);

}  // namespace chorus::scan
