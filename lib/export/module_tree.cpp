#include "lib/export/module_tree.h"

#include <cctype>
#include <sstream>

#include "lib/batching/regions.h"
#include "lib/export/state.h"

namespace chorus {

using torch::jit::Module;

std::vector<std::string> pathComponents(const std::string& path) {
  std::vector<std::string> components;
  std::stringstream stream(path);
  for (std::string part; std::getline(stream, part, '.');) components.push_back(part);
  return components;
}

Module makeModule(const std::string& qualified_name) {
  Module module(c10::QualifiedName(qualified_name),
                std::make_shared<torch::jit::CompilationUnit>());
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

namespace {

Module makeChild(Module& parent, const std::string& name, const std::string& type) {
  const std::string prefix = parent.type()->name()->prefix();
  Module child(c10::QualifiedName(prefix + "." + type), parent._ivalue()->compilation_unit(), true);
  child.register_attribute("training", c10::BoolType::get(), parent.is_training());
  parent.register_module(name, child);
  return child;
}

[[noreturn]] void refuseCollision(const std::string& path) {
  throw Refused(unsupported("two tensors or modules share the name '" + path + "'"));
}

bool isIdentifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::string quotedText(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

Module submodule(Module& root, const std::vector<std::string>& path, const std::string& type) {
  Module here = root;
  for (const std::string& name : path) {
    if (!here.hasattr(name)) {
      here = makeChild(here, name, type);
      continue;
    }
    const c10::IValue value = here.attr(name);
    if (!value.isModule()) refuseCollision(name);
    here = value.toModule();
  }
  return here;
}

void registerTensor(Module& root, const std::string& path, const at::Tensor& tensor,
                    bool is_parameter) {
  std::vector<std::string> components = pathComponents(path);
  const std::string name = components.back();
  components.pop_back();
  Module owner = submodule(root, components);
  if (owner.hasattr(name)) refuseCollision(path);
  if (is_parameter) {
    owner.register_parameter(name, tensor, /*is_buffer=*/false);
  } else {
    owner.register_buffer(name, tensor);
  }
}

at::Tensor tensorAt(const Module& root, const std::string& path) {
  c10::IValue here = root._ivalue();
  for (const std::string& name : pathComponents(path)) {
    if (!here.isObject() || !here.toObjectRef().type()->hasAttribute(name)) return {};
    here = here.toObjectRef().getAttr(name);
  }
  return here.isTensor() ? here.toTensor() : at::Tensor();
}

std::string readExpression(const std::string& path, const std::vector<std::string>& quoted) {
  std::string expression = "self";
  for (const std::string& name : pathComponents(path)) {
    const bool first = expression == "self";
    const bool quote = first && std::count(quoted.begin(), quoted.end(), name);
    if (isIdentifier(name) && !quote) {
      expression += "." + name;
    } else {
      expression = "getattr(" + expression + ", " + quotedText(name) + ")";
    }
  }
  return expression;
}

Value* insertRead(Graph& graph, Value* self, const std::string& path) {
  Value* value = self;
  for (const std::string& name : pathComponents(path)) value = graph.insertGetAttr(value, name);
  return value;
}

namespace {

std::string treeText(const OutputTree& tree, const std::string& list, size_t& next) {
  using Kind = OutputTree::Kind;
  if (tree.kind == Kind::None) return "None";
  if (tree.kind == Kind::Tensor || tree.kind == Kind::TensorInTraining ||
      tree.kind == Kind::TensorInEval) {
    const std::string read = list + "[" + std::to_string(next++) + "]";
    if (tree.kind == Kind::Tensor) return read;
    return "(" + read + (tree.kind == Kind::TensorInEval ? " if not" : " if") +
           " self.training else None)";
  }
  std::string inside;
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i) inside += ", ";
    if (tree.kind == OutputTree::Kind::Dict) inside += quotedText(tree.keys[i]) + ": ";
    inside += treeText(tree.children[i], list, next);
  }
  switch (tree.kind) {
    case OutputTree::Kind::Tuple:
      return "(" + inside + (tree.children.size() == 1 ? ",)" : ")");
    case OutputTree::Kind::List:
      return inside.empty() ? list + "[:0]" : "[" + inside + "]";
    default:
      return "{" + inside + "}";
  }
}

}  // namespace

std::string treeExpression(const OutputTree& tree, const std::string& list) {
  size_t next = 0;
  return treeText(tree, list, next);
}

void addGraphMethod(Module& module, const std::string& name, const std::shared_ptr<Graph>& graph) {
  const c10::QualifiedName qualified(*module.type()->name(), name);
  auto* function = module._ivalue()->compilation_unit()->create_function(qualified, graph);
  module.type()->addMethod(function);
}

void returnAsList(Graph& graph) {
  const std::vector<Value*> outputs = graph.outputs().vec();
  torch::jit::WithInsertPoint at_end(graph.return_node());
  Node* list = graph.insertNode(graph.createList(c10::TensorType::get(), outputs));
  while (!graph.outputs().empty()) graph.eraseOutput(graph.outputs().size() - 1);
  graph.registerOutput(list->output());
}

std::shared_ptr<Graph> readingGraph(const CanonicalGraph& canonical, Graph& body,
                                    const Module& module,
                                    const std::function<Value*(Graph&, Value*, size_t)>& read) {
  std::shared_ptr<Graph> graph = body.copy();
  Value* self = graph->insertInput(0, "self")->setType(module.type());
  const size_t first_slot = 1 + canonical.n_inputs;
  torch::jit::WithInsertPoint at_top(*graph->nodes().begin());
  for (size_t input = first_slot; input < graph->inputs().size(); ++input) {
    Value* slot = graph->inputs()[input];
    if (slot->uses().empty()) continue;
    slot->replaceAllUsesWith(read(*graph, self, input - first_slot));
  }
  while (graph->inputs().size() > first_slot) graph->eraseInput(graph->inputs().size() - 1);
  for (size_t i = 1; i < graph->inputs().size(); ++i) {
    graph->inputs()[i]->setDebugName("x" + std::to_string(i - 1));
  }
  returnAsList(*graph);
  graph->lint();
  return graph;
}

bool isReadAndUpdated(const CanonicalGraph& canonical, size_t slot) {
  if (!std::count(canonical.updates.begin(), canonical.updates.end(), slot)) return false;
  return readByOutputs(canonical).count(canonical.slotInput(slot)) > 0;
}

}  // namespace chorus
