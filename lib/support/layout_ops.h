// What the layout pass knows of ops: which compute element by element, and which work along dims.
//
// A pointwise op may run in any layout of its operands, as long as all of them agree on it.
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

/// "aten::max_pool2d": on [N,C,...], and what becomes of a channel depends on that channel alone.
/// C may also be (K C), and N may be (K N).
bool worksPerChannel(const std::string& op);

/// Ops that take one tensor first and work along the dims in argument `dims`.
struct AlongDims {
  const char* op;
  const char* dims;
  bool keeps_rank;  ///< always, whatever `keepdim` is
};

/// nullptr where the op is not listed.
const AlongDims* findAlongDims(const std::string& op);

}  // namespace chorus
