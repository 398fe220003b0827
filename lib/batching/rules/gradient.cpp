#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/script_code.h"

namespace chorus {
namespace {

// Along the last dim of y [K,...,S], at the places p [K,1,...,S].
const char* const kAtPlaces = R"py(
def slope(y: Tensor, p: Tensor, edge_order: int) -> Tensor:
    dx = p[..., 1:] - p[..., :-1]
    d = dx[..., :-1]
    e = dx[..., 1:]
    inner = -e / (d * (d + e)) * y[..., :-2] + (e - d) / (d * e) * y[..., 1:-1] + d / (e * (d + e)) * y[..., 2:]
    if edge_order == 1:
        first = (y[..., 1:2] - y[..., :1]) / dx[..., :1]
        last = (y[..., -1:] - y[..., -2:-1]) / dx[..., -1:]
        return torch.cat([first, inner, last], -1)
    d = dx[..., :1]
    e = dx[..., 1:2]
    first = -(2.0 * d + e) / (d * (d + e)) * y[..., :1] + (d + e) / (d * e) * y[..., 1:2] - d / (e * (d + e)) * y[..., 2:3]
    d = dx[..., -2:-1]
    e = dx[..., -1:]
    last = e / (d * (d + e)) * y[..., -3:-2] - (d + e) / (d * e) * y[..., -2:-1] + (2.0 * e + d) / (e * (d + e)) * y[..., -1:]
    return torch.cat([first, inner, last], -1)
)py";

/// Each member's own places [K,S] along each dim.
RuleResult atPlaces(RuleContext& context, const std::vector<Operand>& places,
                    const std::vector<int64_t>& dims) {
  if (places.size() != dims.size()) return context.decline("places for other dims");
  std::vector<Value*> slopes;
  for (size_t i = 0; i < dims.size(); ++i) {
    Value* p = context.stackedOf(places[i]);
    for (int64_t d = 1; d < context.rank(0); ++d) p = context.emit("aten::unsqueeze", {p, 1});
    Value* y = context.emit("aten::movedim", {context.stacked(0), dims[i], -1});
    Value* slope = emitScript(context, kAtPlaces, "slope",
                              {y, p, context.operand(context.indexOf("edge_order")).value})
                       .front();
    slopes.push_back(context.emit("aten::movedim", {slope, -1, dims[i]}));
  }
  return stackedResults({context.tensorList(slopes)});
}

/// The dims of the result, a tensor each, as dims of the stacked x: without any, all of the member.
std::optional<std::vector<int64_t>> dimsOf(RuleContext& context) {
  const int64_t rank = context.rank(0);
  const size_t at = context.indexOf("dim");
  const auto known = context.constant(at);
  if (!known) return std::nullopt;
  if (known->isNone()) return dimRange(1, rank);
  return shiftDims(*context.constantInts(at), rank);
}

/// gradient(x, spacing, dim, edge_order): a spacing for all dims, one for each, or none, or the
/// places along each.
RuleResult rule(RuleContext& context) {
  if (context.rank(0) == 0) return context.decline("a tensor without dims");
  const auto dims = dimsOf(context);
  if (!dims) return context.decline("computed dim");
  std::vector<torch::jit::NamedValue> keywords = {
      {"dim", *dims}, {"edge_order", context.operand(context.indexOf("edge_order")).value}};
  if (context.has("spacing") && !context.isNone(context.indexOf("spacing"))) {
    const size_t at = context.indexOf("spacing");
    if (context.isTensorList(at)) {
      const std::vector<Operand> places = context.elements(at);
      if (std::ranges::any_of(places, &Operand::stacked)) return atPlaces(context, places, *dims);
    }
    keywords.emplace_back("spacing", context.operand(at).value);
  }
  return stackedResults({context.emit("aten::gradient", {context.stacked(0)}, keywords)});
}

}  // namespace

RuleRows gradient() { return rowsOf("dim-shift", rule, {"gradient"}); }

}  // namespace chorus
