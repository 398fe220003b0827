// The reference page of operators: what becomes of each where an operand is stacked.
#pragma once

#include <string>

namespace chorus {

/// One line per operator that an archive may use and that takes and gives tensors: the family of
/// its batching rule, or that it runs per member, or why it is refused. Sorted by name.
std::string opsTableText();
/// The same as docs/reference/ops.md.
std::string opsTableMarkdown();

}  // namespace chorus
