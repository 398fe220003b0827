// Lists, tuples and dicts are kept by the walk itself, so that appends and item assignments are
// seen by every name of the container, and tensors are found in them again.
#include "lib/import/specializer.h"

namespace chorus {
namespace {

size_t wrapIndex(int64_t index, size_t size) {
  return static_cast<size_t>(index < 0 ? index + static_cast<int64_t>(size) : index);
}

bool isContainer(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::List || a->kind == Abstract::Kind::Tuple ||
         a->kind == Abstract::Kind::Dict;
}

/// Python's `a is b`.
bool isSameObject(const AbstractPtr& a, const AbstractPtr& b) {
  if (isNone(a) || isNone(b)) return isNone(a) && isNone(b);
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case Abstract::Kind::Tensor:
      return a->cell == b->cell;
    case Abstract::Kind::Plain:
      return a->first == b->first;
    case Abstract::Kind::Object:
      return a->object == b->object;
    default:
      return a == b;
  }
}

/// Python's `isinstance(a, types)`.
bool isInstance(const AbstractPtr& a, const std::vector<c10::TypePtr>& types) {
  const c10::TypePtr own = a->kind == Abstract::Kind::Tensor  ? c10::TensorType::get()
                           : a->kind == Abstract::Kind::Plain ? a->first.type()
                                                              : a->type;
  return own && std::any_of(types.begin(), types.end(),
                            [&](const auto& type) { return own->isSubtypeOf(*type); });
}

}  // namespace

AbstractPtr Specializer::fromIValues(const c10::IValue& first, const c10::IValue& second,
                                     const c10::TypePtr& type) {
  if (first.isTensor())
    return first.toTensor().defined() ? constantTensor(first.toTensor()) : plain({});
  std::vector<AbstractPtr> items;
  if (first.isTuple()) {
    const auto& a = first.toTupleRef().elements();
    const auto& b = second.toTupleRef().elements();
    for (size_t i = 0; i < a.size(); ++i) items.push_back(fromIValues(a[i], b[i], a[i].type()));
    return container(Abstract::Kind::Tuple, items, type);
  }
  if (first.isList()) {
    const auto a = first.toListRef(), b = second.toListRef();
    for (size_t i = 0; i < a.size(); ++i) items.push_back(fromIValues(a[i], b[i], a[i].type()));
    const c10::TypePtr list = type && type->cast<c10::ListType>() ? type : first.type();
    return container(Abstract::Kind::List, items, list);
  }
  if (first.isGenericDict()) {
    auto made = container(Abstract::Kind::Dict, {}, first.type());
    for (const auto& entry : first.toGenericDict()) {
      made->keys.push_back(entry.key());
      made->items.push_back(fromIValues(entry.value(), entry.value(), entry.value().type()));
    }
    return made;
  }
  auto made = plain(first);
  made->second = second;
  return made;
}

bool Specializer::runContainer(const Node& node, const Arguments& arguments,
                               std::vector<AbstractPtr>& outputs) {
  using Kind = Abstract::Kind;
  const auto items = [&] { return arguments.at(0)->items; };
  switch (node.kind()) {
    case c10::prim::ListConstruct:
      outputs = {container(Kind::List, arguments, node.output()->type())};
      outputs[0]->depth = undecided_;
      return true;
    case c10::prim::TupleConstruct:
      outputs = {container(Kind::Tuple, arguments, node.output()->type())};
      return true;
    case c10::prim::DictConstruct: {
      auto made = container(Kind::Dict, {}, node.output()->type());
      for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
        made->keys.push_back(arguments[i]->first);
        made->items.push_back(arguments[i + 1]);
      }
      made->depth = undecided_;
      outputs = {made};
      return true;
    }
    case c10::prim::TupleUnpack:
    case c10::prim::ListUnpack:
      if (!isContainer(arguments.at(0))) return false;
      outputs = items();
      return true;
    case c10::prim::TupleIndex: {
      if (!isContainer(arguments.at(0))) return false;
      outputs = {items().at(wrapIndex(arguments.at(1)->first.toInt(), items().size()))};
      return true;
    }
    case c10::prim::TupleSlice: {
      const auto all = items();
      outputs = {container(
          Kind::Tuple,
          Arguments(all.begin() + node.i(c10::attr::beg), all.begin() + node.i(c10::attr::end)),
          node.output()->type())};
      return true;
    }
    case c10::prim::unchecked_cast:
    case c10::prim::unchecked_unwrap_optional:
    case c10::aten::_unwrap_optional:
      outputs = {arguments.at(0)};
      return true;
    case c10::prim::isinstance:
      outputs = {plain(isInstance(arguments.at(0), node.tys(c10::attr::types)))};
      return true;
    case c10::prim::Uninitialized:
      outputs = {plain({})};
      return true;
    case c10::aten::__is__:
    case c10::aten::__isnot__: {
      const bool same = isSameObject(arguments.at(0), arguments.at(1));
      outputs = {plain(same == (node.kind() == c10::aten::__is__))};
      return true;
    }
    default:
      break;
  }
  if (arguments.empty() || !isContainer(arguments[0])) return false;
  return arguments[0]->kind == Kind::Dict ? runDictOp(node, arguments, outputs)
                                          : runListOp(node, arguments, outputs);
}

/// A list that an undecided block did not make cannot change in it: it would have two contents.
void Specializer::refuseOutsider(const Node& node, const AbstractPtr& container) const {
  if (container->depth >= undecided_) return;
  refuseUnsupported(&node, "a branch or loop that depends on data changes a list or dict");
}

bool Specializer::runListOp(const Node& node, const Arguments& arguments,
                            std::vector<AbstractPtr>& outputs) {
  const std::string op = node.kind().toUnqualString();
  std::vector<AbstractPtr>& items = arguments[0]->items;
  const auto index = [&](size_t i) {
    return wrapIndex(arguments.at(i)->first.toInt(), items.size());
  };
  const auto inRange = [&](size_t at) {
    if (at >= items.size()) refuse(&node, "list index out of range");
    return at;
  };
  const auto list = [&](std::vector<AbstractPtr> made) {
    const AbstractPtr fresh = container(Abstract::Kind::List, std::move(made), arguments[0]->type);
    fresh->depth = undecided_;
    return fresh;
  };
  static const std::set<std::string> writers = {"append", "extend",  "insert",   "pop",
                                                "clear",  "reverse", "_set_item"};
  if (writers.count(op)) refuseOutsider(node, arguments[0]);
  if (op == "append") {
    items.push_back(arguments.at(1));
    outputs = {arguments[0]};
  } else if (op == "extend") {
    const auto more = arguments.at(1)->items;
    items.insert(items.end(), more.begin(), more.end());
  } else if (op == "insert") {
    items.insert(items.begin() + static_cast<int64_t>(index(1)), arguments.at(2));
  } else if (op == "pop") {
    const size_t at = inRange(arguments.size() > 1 ? index(1) : items.size() - 1);
    outputs = {items[at]};
    items.erase(items.begin() + static_cast<int64_t>(at));
  } else if (op == "clear") {
    items.clear();
  } else if (op == "reverse") {
    std::reverse(items.begin(), items.end());
  } else if (op == "_set_item") {
    items[inRange(index(1))] = arguments.at(2);
    outputs = {arguments[0]};
  } else if (op == "__getitem__") {
    outputs = {items[inRange(index(1))]};
  } else if (op == "len") {
    outputs = {plain(static_cast<int64_t>(items.size()))};
  } else if (op == "list" || op == "copy") {
    outputs = {list(items)};
  } else if (op == "add" && arguments.at(1)->kind == Abstract::Kind::List) {
    auto all = items;
    all.insert(all.end(), arguments[1]->items.begin(), arguments[1]->items.end());
    outputs = {list(all)};
  } else if (op == "mul" && arguments.at(1)->first.isInt()) {
    std::vector<AbstractPtr> all;
    for (int64_t i = 0; i < arguments[1]->first.toInt(); ++i) {
      all.insert(all.end(), items.begin(), items.end());
    }
    outputs = {list(all)};
  } else if (op == "slice") {
    const auto size = static_cast<int64_t>(items.size());
    const auto bound = [&](size_t i, int64_t otherwise) {
      if (isNone(arguments.at(i))) return otherwise;
      const int64_t at = arguments[i]->first.toInt();
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    std::vector<AbstractPtr> part;
    for (int64_t i = bound(1, 0); i < bound(2, size); i += arguments.at(3)->first.toInt()) {
      part.push_back(items[static_cast<size_t>(i)]);
    }
    outputs = {list(part)};
  } else {
    return false;
  }
  return true;
}

bool Specializer::runDictOp(const Node& node, const Arguments& arguments,
                            std::vector<AbstractPtr>& outputs) {
  const std::string op = node.kind().toUnqualString();
  Abstract& dict = *arguments[0];
  const auto find = [&](const AbstractPtr& key) {
    return static_cast<size_t>(std::find(dict.keys.begin(), dict.keys.end(), key->first) -
                               dict.keys.begin());
  };
  if (op == "_set_item") {
    refuseOutsider(node, arguments[0]);
    const size_t at = find(arguments.at(1));
    if (at == dict.keys.size()) {
      dict.keys.push_back(arguments[1]->first);
      dict.items.push_back(arguments.at(2));
    } else {
      dict.items[at] = arguments.at(2);
    }
  } else if (op == "__getitem__") {
    const size_t at = find(arguments.at(1));
    if (at == dict.keys.size()) refuse(&node, "the dict has no such key");
    outputs = {dict.items[at]};
  } else if (op == "__contains__") {
    outputs = {plain(find(arguments.at(1)) < dict.keys.size())};
  } else if (op == "len") {
    outputs = {plain(static_cast<int64_t>(dict.items.size()))};
  } else if (op == "values") {
    outputs = {container(Abstract::Kind::List, dict.items, node.output()->type())};
  } else if (op == "keys") {
    std::vector<AbstractPtr> keys;
    for (const c10::IValue& key : dict.keys) keys.push_back(plain(key));
    outputs = {container(Abstract::Kind::List, keys, node.output()->type())};
  } else if (op == "items") {
    std::vector<AbstractPtr> pairs;
    for (size_t i = 0; i < dict.items.size(); ++i) {
      pairs.push_back(
          container(Abstract::Kind::Tuple, {plain(dict.keys[i]), dict.items[i]}, nullptr));
    }
    outputs = {container(Abstract::Kind::List, pairs, node.output()->type())};
  } else {
    return false;
  }
  return true;
}

}  // namespace chorus
