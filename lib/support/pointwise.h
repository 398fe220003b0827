// Ops that compute each element of their result from the elements at the same (broadcast) place.
//
// Such an op may run in any layout of its operands, as long as all of them agree on it.
#pragma once

#include <string>

namespace chorus {

/// "aten::relu": every tensor operand broadcasts against the others, aligned at the right; no other
/// argument knows of dims. Random ops with independent draws per element ("aten::dropout") are
/// among them.
bool isPointwise(const std::string& op);

/// "aten::type_as": the result has the shape of operand 0 and is pointwise in it; other tensor
/// operands lend a dtype only.
bool isPointwiseInFirst(const std::string& op);

}  // namespace chorus
