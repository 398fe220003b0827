// What the specialiser knows of each value while it walks a member's code.
//
// The walk runs the code on two examples at once, which differ in the batch size only (`first` and
// `second`). Tensors are meta tensors: shapes and dtypes without data. What comes out equal for
// both does not depend on the batch size and is folded; what differs follows it and stays in the
// graph.
#pragma once

#include <memory>

#include "chorus/member.h"

namespace chorus {

struct Abstract;
using AbstractPtr = std::shared_ptr<Abstract>;

/// The memory behind a tensor value. Names of one tensor share a cell; a view has a cell of its own
/// that knows its base, so that a write through either is seen through both (functionalisation).
struct TensorCell {
  Value* value = nullptr;  ///< in the output graph, current contents
  at::Tensor first,
      second;  ///< example tensors: meta, or CPU where the contents are known (numbers as tensors)
  std::optional<size_t> slot;  ///< index of the slot that this cell is

  std::shared_ptr<TensorCell> base;  ///< of a view
  Node* view = nullptr;              ///< the node that made the view from the base
  size_t view_output = 0;            ///< of `view`, or place in the list that it returns
  std::vector<std::shared_ptr<Abstract>> view_arguments;
  /// Of a view that is one of a list (chunk, unbind): all of them. They do not overlap.
  std::shared_ptr<std::vector<std::weak_ptr<TensorCell>>> parts;
  uint64_t version = 0;       ///< counts writes
  uint64_t base_version = 0;  ///< version of the base that `value` was made from
  bool varies = false;        ///< contents are known and follow the batch size
  bool met = false;  ///< may be the memory of another one too, as a branch or a loop decides

  bool known() const { return !first.is_meta(); }
};

/// A value of the interpreted code.
struct Abstract {
  enum class Kind { Plain, Tensor, List, Tuple, Dict, Object };
  Kind kind = Kind::Plain;

  // Plain: numbers, strings, None, devices, enums, whole lists of them.
  c10::IValue first, second;
  bool varies = false;     ///< follows the batch size, or data
  bool data = false;       ///< its examples say nothing: it follows data
  Value* value = nullptr;  ///< in the output graph; null: not emitted yet (a constant)
  /// A number that is the contents of a tensor: that 0-d tensor. A tensor that was made from a
  /// number: that number.
  AbstractPtr number;
  /// Not empty: the branches that meet here give what cannot be one value. Refused where it is
  /// used.
  std::string clash;

  std::shared_ptr<TensorCell> cell;  // Tensor
  std::vector<AbstractPtr> items;    // List, Tuple, Dict (values)
  std::vector<c10::IValue> keys;     // Dict
  int depth = 0;                     ///< of the undecided blocks around its birth (undecided.cpp)
  c10::TypePtr type;                 // List, Tuple, Dict: the type in the code

  // Object: a module (or a plain object such as no_grad) and its dotted path.
  c10::intrusive_ptr<c10::ivalue::Object> object;
  std::string path;
};

inline AbstractPtr plain(c10::IValue value) {
  auto made = std::make_shared<Abstract>();
  made->first = value;
  made->second = std::move(value);
  return made;
}

inline AbstractPtr container(Abstract::Kind kind, std::vector<AbstractPtr> items,
                             c10::TypePtr type) {
  auto made = std::make_shared<Abstract>();
  made->kind = kind;
  made->items = std::move(items);
  made->type = std::move(type);
  return made;
}

inline AbstractPtr tensorOf(std::shared_ptr<TensorCell> cell) {
  auto made = std::make_shared<Abstract>();
  made->kind = Abstract::Kind::Tensor;
  made->cell = std::move(cell);
  return made;
}

/// A number that only a tensor knows.
inline bool isContentsOfTensor(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Plain && a->number;
}

inline bool isNone(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Plain && a->first.isNone();
}

/// True if a tensor is `a`, or somewhere in it.
bool holdsTensor(const AbstractPtr& a);
/// True if `a` or something in it follows the batch size or is read from a tensor.
bool holdsVarying(const AbstractPtr& a);

}  // namespace chorus
