#include <torch/csrc/jit/ir/constants.h>

#include <set>

#include "lib/batching/families.h"

namespace chorus {
namespace {

// as_strided(x, size, stride, storage_offset?): element (i, j) is the one at offset + i s + j t of
// the member's memory.
constexpr size_t kSize = 1, kStride = 2, kOffset = 3;

bool isContiguousFormat(const Node* node) {
  const auto i = node->schema().argumentIndexWithName("memory_format");
  if (!i) return false;
  const auto format = torch::jit::toIValue(node->input(static_cast<size_t>(*i)));
  return format && format->isInt() &&
         format->toInt() == static_cast<int64_t>(c10::MemoryFormat::Contiguous);
}

/// The tensor's elements lie row by row in every member: it was made so, or is a view that keeps
/// them so. `from_front`: of its memory; `contiguous` may return a part of another tensor's.
bool liesRowByRow(const Value* x, bool from_front) {
  static const std::set<std::string> made = {"aten::zeros",     "aten::ones",  "aten::full",
                                             "aten::rand",      "aten::randn", "aten::arange",
                                             "aten::embedding", "aten::repeat"};
  static const std::set<std::string> views = {"aten::view",    "aten::reshape",   "aten::flatten",
                                              "aten::squeeze", "aten::unsqueeze", "aten::unflatten",
                                              "aten::view_as", "aten::reshape_as"};
  const Node* node = x->node();
  const std::string op = node->kind().toQualString();
  if (made.count(op)) return true;
  if (op == "aten::clone") return isContiguousFormat(node);
  if (op == "aten::contiguous") return isContiguousFormat(node) && !from_front;
  return views.count(op) && liesRowByRow(node->input(0), from_front);
}

/// The ints of list argument i, `count` of them.
std::vector<Value*> intsOf(RuleContext& context, size_t i, int64_t count) {
  Value* list = context.operand(i).value;
  if (list->node()->kind() == c10::prim::ListConstruct) return list->node()->inputs().vec();
  std::vector<Value*> ints;
  for (int64_t d = 0; d < count; ++d) ints.push_back(context.emit("aten::__getitem__", {list, d}));
  return ints;
}

/// The places of the elements, then the elements at these: [K,...] as rows [K,P], at [A,B].
RuleResult rule(RuleContext& context) {
  const bool begins = !context.isNone(kOffset);
  if (!liesRowByRow(context.node()->input(0), begins))
    return context.decline("depends on how the tensor lies in memory");
  Value* rows = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  const int64_t rank = context.outputRank();
  const std::vector<Value*> sizes = intsOf(context, kSize, rank);
  const std::vector<Value*> strides = intsOf(context, kStride, rank);
  Value* device = context.emit("prim::device", {rows});
  Value* first = begins ? context.operand(kOffset).value : context.constantOf(0);
  Value* places = context.emit("aten::full", {std::vector<int64_t>{1}, first},
                               {{"dtype", static_cast<int64_t>(at::kLong)}, {"device", device}});
  for (int64_t d = 0; d < rank; ++d) {
    const auto i = static_cast<size_t>(d);
    Value* along = context.emit("aten::arange", {sizes[i]}, {{"device", device}});
    along = context.emit("aten::mul", {along, strides[i]});
    places = context.emit("aten::add", {context.emit("aten::unsqueeze", {places, -1}), along});
  }
  Value* found =
      context.emit("aten::index_select", {rows, 1, context.emit("aten::flatten", {places})});
  return stackedResults({context.emit("aten::reshape", {found, context.countInFront(kSize)})});
}

}  // namespace

RuleRows as_strided() { return rowsOf("gather", rule, {"as_strided", "as_strided_copy"}); }

}  // namespace chorus
