// What undecided.cpp and undecided_loop.cpp share.
#pragma once

#include "lib/import/abstract_value.h"

namespace chorus {

/// A number that the graph computes. Its examples differ, so that nothing made with it is folded.
AbstractPtr computedNumber(const c10::IValue& example, Value* value);

inline bool isNumber(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Plain &&
         (a->first.isInt() || a->first.isDouble() || a->first.isBool());
}

void forEachTensor(const AbstractPtr& a,
                   const std::function<void(const std::shared_ptr<TensorCell>&)>& f);

}  // namespace chorus
