#include "lib/scan/code_scope.h"

#include "lib/scan/code_tree.h"

namespace chorus::scan {
namespace {

using namespace torch::jit;

const std::set<std::string> kReserved = {
    "torch", "ops",       "CONSTANTS", "__torch__",      "getattr",       "print",
    "fork",  "awaitable", "annotate",  "unchecked_cast", "uninitialized", "isinstance"};

class Binder {
 public:
  Binder(const Program& program, const std::string& path) : program_(program), path_(path) {}

  void parameter(const Param& parameter) {
    bind(parameter.ident().range(), parameter.ident().name());
    if (parameter.type().present())
      typed(parameter.ident().name(), dottedName(parameter.type().get().tree()));
  }

  void visit(const TreeRef& tree) {
    switch (tree->kind()) {
      case TK_ASSIGN:
        assign(Assign(tree));
        break;
      case TK_FOR:
        bindTarget(For(tree).targets().tree());
        break;
      case TK_LIST_COMP:
        bindTarget(ListComp(tree).target().tree());
        break;
      case TK_DICT_COMP:
        bindTarget(DictComp(tree).target().tree());
        break;
      case TK_WITH_ITEM:
        if (WithItem(tree).var().present()) bindTarget(WithItem(tree).var().get().tree());
        break;
      default:
        break;
    }
    for (const TreeRef& part : tree->trees()) visit(part);
  }

  Scope finish() {
    for (const auto& [name, count] : bindings_) {
      scope_.bound.insert(name);
      if (count > 1) scope_.classes.erase(name);
    }
    return std::move(scope_);
  }

 private:
  void bind(const SourceRange& range, const std::string& name) {
    if (kReserved.contains(name)) {
      throw refusedAt(path_, range,
                      "the archive's code gives the name '" + name + "' a meaning of its own");
    }
    ++bindings_[name];
  }
  void typed(const std::string& name, const std::string& type) {
    if (program_.find(type)) scope_.classes[name] = type;
  }
  void bindTarget(const TreeRef& target) {
    if (target->kind() == TK_VAR) return bind(target->range(), Var(target).name().name());
    const bool group = target->kind() == TK_LIST || target->kind() == TK_TUPLE_LITERAL ||
                       target->kind() == TK_STARRED;
    if (!group) return;
    for (const TreeRef& part : target->trees()) bindTarget(part);
  }
  void assign(const Assign& assign) {
    bindTarget(assign.lhs_list().tree());
    const bool simple =
        assign.lhs_list().size() == 1 && assign.lhs().kind() == TK_VAR && assign.rhs().present();
    if (simple)
      typed(Var(assign.lhs()).name().name(), classOf(assign.rhs().get().tree(), scope_, program_));
  }

  const Program& program_;
  const std::string& path_;
  Scope scope_;
  std::map<std::string, size_t> bindings_;
};

std::string attributeClass(const TreeRef& receiver, const std::string& name, const Scope& scope,
                           const Program& program) {
  const ClassInfo* type = program.find(classOf(receiver, scope, program));
  if (!type || type->kind == ClassInfo::Kind::Enum) return "";
  const auto found = type->attributes.find(name);
  return found == type->attributes.end() ? "" : found->second;
}

}  // namespace

bool isNamespace(const std::string& name) {
  return name == "torch" || name == "ops" || name == "CONSTANTS" || name == "__torch__";
}

Scope bindNames(const Def& function, const Program& program, const std::string& path) {
  Binder binder(program, path);
  for (const Param& parameter : function.decl().params()) binder.parameter(parameter);
  binder.visit(function.statements().tree());
  return binder.finish();
}

std::string classOf(const TreeRef& expression, const Scope& scope, const Program& program) {
  if (expression->kind() == TK_VAR) {
    const auto found = scope.classes.find(Var(expression).name().name());
    return found == scope.classes.end() ? "" : found->second;
  }
  if (expression->kind() == '.') {
    const Select select(expression);
    return attributeClass(select.value().tree(), select.selector().name(), scope, program);
  }
  if (expression->kind() != TK_APPLY) return "";
  const Apply call(expression);
  const std::string callee = dottedName(call.callee().tree());
  const auto inputs = call.inputs();
  if (callee == "getattr" && inputs.size() == 2 && inputs[1].kind() == TK_STRINGLITERAL) {
    return attributeClass(inputs[0].tree(), StringLiteral(inputs[1]).text(), scope, program);
  }
  const bool constructor =
      callee.ends_with(".__new__") && program.find(callee.substr(0, callee.size() - 8));
  if (constructor) return callee.substr(0, callee.size() - 8);
  return program.find(callee) ? callee : "";
}

}  // namespace chorus::scan
