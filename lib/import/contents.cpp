// Numbers that are the contents of a tensor: `float(t)`, `t.item()`, and arithmetic with them.
#include <torch/csrc/jit/runtime/operator.h>

#include "lib/import/specializer.h"

namespace chorus {

using torch::jit::Stack;

bool isTensorType(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>())
    return isTensorType(optional->getElementType());
  if (const auto list = type->cast<c10::ListType>()) return isTensorType(list->getElementType());
  return type->isSubtypeOf(*c10::TensorType::get());
}

namespace {

bool isNumberArithmetic(const std::string& name) {
  static const std::set<std::string> names = {"aten::add", "aten::sub", "aten::mul", "aten::div",
                                              "aten::neg"};
  return names.count(name) > 0;
}

}  // namespace

bool Specializer::isReadOfContents(const Call& call) const {
  static const std::set<std::string> readers = {
      "aten::Int",         "aten::Float",        "aten::Bool", "aten::item", "aten::ScalarImplicit",
      "aten::IntImplicit", "aten::FloatImplicit"};
  return readers.count(call.name) && call.arguments.at(0)->kind == Abstract::Kind::Tensor;
}

/// `float(t)`: of a tensor made from a number, that number; else a number that stays a tensor in
/// the graph.
std::vector<AbstractPtr> Specializer::readContents(const Call& call) {
  const AbstractPtr& tensor = call.arguments[0];
  if (tensor->number && tensor->cell->version == 0) return {tensor->number};
  const TensorCell& cell = *tensor->cell;
  const bool is_float = call.name == "aten::Float" || call.name == "aten::FloatImplicit";
  if (!cell.known()) {
    const at::ScalarType dtype = cell.first.scalar_type();
    auto made =
        plain(is_float || at::isFloatingType(dtype) ? c10::IValue(1.0) : c10::IValue(int64_t{1}));
    made->second = made->first.isInt() ? c10::IValue(int64_t{2}) : c10::IValue(2.0);
    if (call.name == "aten::Bool" || (dtype == at::kBool && call.name == "aten::item")) {
      made->first = true;
      made->second = false;
    }
    // A number has no history.
    made->number =
        at::isFloatingType(dtype) ? emitOne(call.node, "aten::detach", {tensor}) : tensor;
    made->varies = true;
    return {made};
  }
  if (cell.varies) return emit(call);
  Stack stack{cell.first};
  call.node->getOperation()(stack);
  return {plain(stack.at(0))};
}

/// Where a tensor says where parts begin, its contents do: `tensor_split(x, tensor)` and `narrow`.
void Specializer::readPlaces(Call& call) const {
  static const std::map<std::string, size_t> places = {{"aten::tensor_split", 1},
                                                       {"aten::narrow", 2}};
  const auto found = places.find(call.name);
  if (found == places.end()) return;
  AbstractPtr& given = call.arguments.at(found->second);
  if (given->kind != Abstract::Kind::Tensor) return;
  const TensorCell& cell = *given->cell;
  if (given->number && cell.version == 0) {
    given = given->number;
    return;
  }
  if (!cell.known() || cell.varies) {
    refuseUnsupported(call.node, call.name + " at places that are the values of a tensor");
  }
  const at::Tensor values = cell.first.to(at::kLong);
  if (values.dim() == 0) {
    given = plain(values.item<int64_t>());
    return;
  }
  std::vector<AbstractPtr> items;
  for (int64_t i = 0; i < values.numel(); ++i) items.push_back(plain(values[i].item<int64_t>()));
  given = container(Abstract::Kind::List, items, c10::ListType::ofInts());
}

/// An overload of `name` takes a tensor as argument `i`.
bool Specializer::takesTensor(const std::string& name, size_t i) const {
  const auto all = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name));
  return std::any_of(all.begin(), all.end(), [i](const auto& candidate) {
    const auto& arguments = candidate->schema().arguments();
    return i < arguments.size() && !arguments[0].is_out() && isTensorType(arguments[i].type());
  });
}

/// Arithmetic with the contents of a tensor: done on the 0-d tensor itself where there is such an
/// op, else on the number.
std::vector<AbstractPtr> Specializer::withNumbersAsTensors(const Call& given) {
  Call call = given;
  const bool plain_only = std::none_of(call.arguments.begin(), call.arguments.end(), holdsTensor);
  bool left = false;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    AbstractPtr& a = call.arguments[i];
    if (!isContentsOfTensor(a)) continue;
    const bool stays = plain_only ? isNumberArithmetic(call.name) && !a->first.isBool()
                                  : takesTensor(call.name, i);
    left |= stays;
    if (stays) continue;
    auto read = plain(a->first);
    read->second = a->second;
    read->varies = read->data = true;
    read->value = number(a, call.node->inputs().at(i)->type());
    a = read;
  }
  if (!left) return perform(call);
  Arguments arguments;
  for (const AbstractPtr& a : call.arguments) {
    if (!isContentsOfTensor(a)) {
      const bool scalar = plain_only && arguments.empty();
      const AbstractPtr like = scalar ? call.arguments.at(1)->number : nullptr;
      arguments.push_back(like ? emitOne(call.node, "aten::full_like", {like, a}) : a);
      continue;
    }
    // A Python number is a double.
    const AbstractPtr wide = plain(static_cast<int64_t>(at::kDouble));
    arguments.push_back(plain_only && a->first.isDouble() ? cast(call.node, a->number, wide)
                                                          : a->number);
  }
  if (arguments[0]->kind == Abstract::Kind::Tensor && plain_only) {
    arguments[0] = cast(call.node, arguments[0], plain(static_cast<int64_t>(at::kDouble)));
  }
  const AbstractPtr result = emitOne(call.node, call.name, arguments);
  if (!plain_only) return {result};
  auto made = plain(c10::IValue(1.0));
  made->number = result;
  made->varies = true;
  return {made};
}

}  // namespace chorus
