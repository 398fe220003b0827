// Places and refusals of the specialiser.
#include "lib/import/specializer.h"

namespace chorus {
namespace {

using torch::jit::SourceRange;

bool inLibrary(const SourceRange& range) {
  const SourceRange written = range.findSourceRangeThatGenerated().value_or(range);
  const auto position = written.file_line_col();
  if (!position || std::get<0>(*position).empty()) return true;
  const std::string& name = std::get<0>(*position);
  return name.find("/torch/") != std::string::npos || name.find("__torch__") != std::string::npos;
}

/// Ops that may have been given a literal batch size.
bool takesSizes(const Node& node) {
  static const std::set<std::string> names = {
      "aten::view",       "aten::reshape", "aten::expand",   "aten::_unsafe_view",
      "aten::as_strided", "aten::repeat",  "aten::unflatten"};
  return names.count(node.kind().toQualString()) > 0;
}

bool followsBatch(const Value& value) {
  const auto type = value.type()->cast<c10::TensorType>();
  if (!type || !type->dim()) return false;
  for (size_t d = 0; d < *type->dim(); ++d) {
    if (!type->sizes()[d]) return true;
  }
  return false;
}

}  // namespace

/// Gives an emitted node the user's own place: the innermost call site outside of torch's files,
/// and the module path.
void Specializer::stamp(Node* made, const Node* from) {
  SourceRange range = from->sourceRange();
  for (auto site = call_sites_.rbegin(); site != call_sites_.rend() && inLibrary(range); ++site) {
    if (!inLibrary(*site)) range = *site;
  }
  made->setSourceRange(range.findSourceRangeThatGenerated().value_or(range));
  const std::string path = module_path_.empty() ? "" : module_path_.back();
  if (path.empty()) return;
  torch::jit::ScopePtr& scope = scopes_[path];
  if (!scope) {
    scope = c10::make_intrusive<torch::jit::Scope>()->push(c10::Symbol::scope(path));
  }
  made->setScope(scope);
}

Place Specializer::place(const Node* node) const {
  SourceRange range = node->sourceRange();
  for (auto site = call_sites_.rbegin(); site != call_sites_.rend() && inLibrary(range); ++site) {
    if (!inLibrary(*site)) range = *site;
  }
  Graph scratch;
  Node* stand_in = scratch.insertNode(scratch.create(c10::prim::Constant));
  stand_in->setSourceRange(range);
  Place found = placeOf(stand_in, request_.file);
  if (!module_path_.empty()) found.module_path = module_path_.back();
  return found;
}

void Specializer::refuse(const Node* node, const std::string& text) const {
  throw Refused(error(text.substr(0, text.find('\n')), place(node)));
}

void Specializer::refuseUnsupported(const Node* node, const std::string& text) const {
  throw Refused(unsupported(text, place(node)));
}

/// An op that fails for another batch size is rarely to blame itself: the view before it that
/// swallowed the batch is.
Place Specializer::batchFixingPlace(const Node* failed) const {
  const Node* at = failed;
  for (int steps = 0; steps < 64 && at && !at->inputs().empty(); ++steps) {
    const Value* input = at->inputs()[0];
    const Node* before = input->node();
    if (takesSizes(*at) && at->inputs().size() > 1 && torch::jit::toIValue(at->inputs()[1])) {
      return placeOf(at, request_.file);
    }
    if (before->kind() == c10::prim::Param || !followsBatch(*input)) break;
    at = before;
  }
  return placeOf(failed, request_.file);
}

}  // namespace chorus
