// Why a whole tree and not a list of words: TorchScript resolves `torch.x(...)`, `ops.ns.x(...)`,
// `value.x(...)` and `getattr(value, "x")` to operators, and lets functions be bound to variables.
// So a namespace may only appear as the callee of a call, and a member access that could name a
// forbidden operator must be one of a known class of the archive.
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "lib/scan/allowed_operators.h"
#include "lib/scan/code_scan.h"
#include "lib/scan/code_scope.h"
#include "lib/scan/code_tree.h"

namespace chorus::scan {
namespace {

using namespace torch::jit;

// Functions of TorchScript that have a name of their own; none of them does more than compute.
const std::set<std::string> kFunctions = {
    "float", "int",    "bool", "str",       "complex",  "list",    "dict",     "tuple",
    "range", "len",    "min",  "max",       "abs",      "all",     "any",      "sum",
    "round", "pow",    "zip",  "sorted",    "ord",      "chr",     "hex",      "bin",
    "oct",   "divmod", "hash", "enumerate", "reversed", "hasattr", "rangelist"};
const std::set<std::string> kConstants = {"inf", "nan", "infj", "nanj", "Exception"};
// Where a type stands among the arguments.
const std::map<std::string, size_t> kTypedForms = {
    {"annotate", 0}, {"unchecked_cast", 0}, {"uninitialized", 0}, {"isinstance", 1}};
const std::map<std::string, std::string> kForbiddenFunctions = {
    {"print", "prim::Print"}, {"fork", "prim::fork"}, {"awaitable", "prim::awaitable"}};
const std::set<std::string> kTypes = {
    "Tensor",   "int",    "float",      "complex",      "number", "bool",       "str",   "None",
    "NoneType", "Any",    "List",       "Dict",         "Tuple",  "Optional",   "Union", "Final",
    "Device",   "Layout", "ScalarType", "MemoryFormat", "Enum",   "AnyEnumType"};
// Statements and expressions whose parts are simply visited.
const std::set<int> kPlain = {TK_LIST,
                              TK_OPTION,
                              TK_IF,
                              TK_WHILE,
                              TK_FOR,
                              TK_EXPR_STMT,
                              TK_RETURN,
                              TK_ASSERT,
                              TK_RAISE,
                              TK_PASS,
                              TK_BREAK,
                              TK_CONTINUE,
                              TK_DELETE,
                              TK_WITH,
                              TK_WITH_ITEM,
                              TK_AUG_ASSIGN,
                              TK_IF_EXPR,
                              TK_AND,
                              TK_OR,
                              TK_NOT,
                              TK_IS,
                              TK_ISNOT,
                              TK_IN,
                              TK_NOTIN,
                              TK_EQ,
                              TK_NE,
                              TK_LE,
                              TK_GE,
                              TK_POW,
                              TK_FLOOR_DIV,
                              TK_LSHIFT,
                              TK_RSHIFT,
                              TK_UNARY_MINUS,
                              TK_CONST,
                              TK_TRUE,
                              TK_FALSE,
                              TK_NONE,
                              TK_STRINGLITERAL,
                              TK_SUBSCRIPT,
                              TK_SLICE_EXPR,
                              TK_LIST_LITERAL,
                              TK_TUPLE_LITERAL,
                              TK_DICT_LITERAL,
                              TK_LIST_COMP,
                              TK_DICT_COMP,
                              TK_STARRED,
                              TK_DOTS,
                              TK_NONE_TYPE,
                              TK_PLUS_EQ,
                              TK_MINUS_EQ,
                              TK_TIMES_EQ,
                              TK_DIV_EQ,
                              TK_MOD_EQ,
                              TK_POW_EQ,
                              TK_BIT_OR_EQ,
                              TK_BIT_AND_EQ,
                              TK_BIT_XOR_EQ,
                              TK_LSHIFT_EQ,
                              TK_RSHIFT_EQ,
                              '+',
                              '-',
                              '*',
                              '/',
                              '%',
                              '@',
                              '<',
                              '>',
                              '&',
                              '|',
                              '^',
                              '~'};

class Checker {
 public:
  Checker(const std::string& path, const Program& program) : path_(path), program_(program) {}

  void checkFunction(const Def& function, const ClassInfo* owner) {
    grad_mode_ = owner && owner->kind == ClassInfo::Kind::GradMode;
    scope_ = bindNames(function, program_, path_);
    for (const Param& parameter : function.decl().params()) {
      if (parameter.type().present()) checkType(parameter.type().get().tree());
      if (parameter.defaultValue().present()) visit(parameter.defaultValue().get().tree());
    }
    if (function.decl().return_type().present())
      checkType(function.decl().return_type().get().tree());
    visit(function.statements().tree());
  }

  void checkClass(const ClassDef& definition, const ClassInfo& info) {
    for (const auto& statement : definition.body()) {
      scope_ = {};
      grad_mode_ = false;
      if (statement.kind() == TK_DEF) checkFunction(Def(statement.tree()), &info);
      if (statement.kind() == TK_ASSIGN) checkAttribute(Assign(statement.tree()));
    }
  }

  void checkType(const TreeRef& type) {
    const int kind = type->kind();
    if (kind == '.') {
      if (!program_.find(dottedName(type)))
        refuse(type, "uses the type '" + dottedName(type) + "', which it does not define");
      return;
    }
    if (kind == TK_VAR && !kTypes.contains(Var(type).name().name())) {
      refuse(type, "uses the type '" + Var(type).name().name() + "', which no model file needs");
    }
    const bool known = kind == TK_VAR || kind == TK_SUBSCRIPT || kind == TK_LIST ||
                       kind == TK_LIST_LITERAL || kind == TK_TUPLE_LITERAL || kind == TK_NONE ||
                       kind == TK_NONE_TYPE || kind == '|';
    if (!known) refuse(type, "has a type that cannot be read");
    if (kind == TK_VAR) return;
    for (const TreeRef& part : type->trees()) checkType(part);
  }

 private:
  [[noreturn]] void refuse(const TreeRef& tree, const std::string& what) const {
    throw refusedAt(path_, tree->range(), "the archive's code " + what);
  }

  // Constants and types of a class body; LibTorch evaluates the constants while it loads.
  void checkAttribute(const Assign& assign) {
    if (assign.type().present()) checkType(assign.type().get().tree());
    if (!assign.rhs().present()) return;
    const bool annotation = assign.lhs_list().size() == 1 && assign.lhs().kind() == TK_SUBSCRIPT;
    if (annotation) {
      checkType(assign.rhs().get().tree());
    } else {
      visit(assign.rhs().get().tree());
    }
  }

  void visitAll(const TreeRef& tree) {
    for (const TreeRef& part : tree->trees()) visit(part);
  }

  void visit(const TreeRef& tree) {
    switch (tree->kind()) {
      case TK_VAR:
        return checkName(Var(tree));
      case TK_APPLY:
        return checkCall(Apply(tree));
      case '.':
        return checkAccess(Select(tree));
      case TK_ASSIGN: {
        const Assign assign(tree);
        if (assign.type().present()) checkType(assign.type().get().tree());
        visit(assign.lhs_list().tree());
        if (assign.rhs().present()) visit(assign.rhs().get().tree());
        return;
      }
      case TK_ATTRIBUTE:
        return visit(tree->trees().at(1));
      case TK_STRINGLITERAL:
      case TK_CONST:
        return;
      default:
        break;
    }
    if (!kPlain.contains(tree->kind()))
      refuse(tree, "has the construct '" + kindToString(tree->kind()) + "'");
    visitAll(tree);
  }

  void checkName(const Var& variable) const {
    const std::string& name = variable.name().name();
    if (scope_.bound.contains(name) || kConstants.contains(name)) return;
    if (const auto found = kForbiddenFunctions.find(name); found != kForbiddenFunctions.end()) {
      checkOperator(variable.tree(), found->second);
    }
    refuse(variable.tree(), "uses the name '" + name + "' for something other than a call");
  }

  void checkOperator(const TreeRef& tree, const std::string& name) const {
    const bool training = program_.fused && isTrainingOperator(name);
    if (grad_mode_ ? isGradModeOperator(name) : isAllowedOperator(name) || training) return;
    const std::string why = grad_mode_ && isAllowedOperator(name)
                                ? "has no place in a class that switches the grad mode"
                                : whyRefused(name);
    refuse(tree, "uses the operator '" + name + "', which " + why);
  }

  // torch.NAME, torch.autograd.NAME, ops.NAMESPACE.NAME; "" for other callees.
  std::string operatorOf(const TreeRef& callee) const {
    const std::string name = dottedName(callee);
    for (const std::string prefix : {"torch.autograd.", "torch.", "ops."}) {
      if (!name.starts_with(prefix)) continue;
      const std::string rest = name.substr(prefix.size());
      const size_t dot = rest.find('.');
      const bool in_ops = prefix == "ops.";
      if ((dot != std::string::npos) != in_ops ||
          (in_ops && rest.find('.', dot + 1) != std::string::npos))
        break;
      return in_ops ? rest.substr(0, dot) + "::" + rest.substr(dot + 1) : "aten::" + rest;
    }
    if (isNamespace(name.substr(0, name.find('.'))) && !name.starts_with("__torch__.")) {
      refuse(callee, "uses '" + name + "' in a way that hides what it calls");
    }
    return "";
  }

  void checkCall(const Apply& call) {
    const TreeRef& callee = call.callee().tree();
    if (const std::string name = operatorOf(callee); !name.empty()) {
      checkOperator(callee, name);
    } else if (callee->kind() == TK_VAR) {
      return checkNamedCall(call, Var(callee).name().name());
    } else if (callee->kind() != '.') {
      refuse(callee, "calls the result of an expression");
    } else if (dottedName(callee).starts_with("__torch__.")) {
      checkDefined(callee);
    } else {
      const Select select(callee);
      visit(select.value().tree());
      checkMember(callee, select.value().tree(), select.selector().name(), true);
    }
    visit(call.inputs().tree());
    visit(call.attributes().tree());
  }

  void checkNamedCall(const Apply& call, const std::string& name) {
    const auto inputs = call.inputs();
    if (const auto form = kTypedForms.find(name);
        form != kTypedForms.end() && !scope_.bound.contains(name)) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        i == form->second ? checkType(inputs[i].tree()) : visit(inputs[i].tree());
      }
      return visit(call.attributes().tree());
    }
    if (name == "getattr") {
      if (inputs.size() != 2 || inputs[1].kind() != TK_STRINGLITERAL)
        refuse(call.tree(), "calls getattr with a computed name");
      visit(inputs[0].tree());
      return checkMember(call.tree(), inputs[0].tree(), StringLiteral(inputs[1]).text(), false);
    }
    if (!kFunctions.contains(name) && !scope_.bound.contains(name)) checkName(Var(call.callee()));
    visit(call.inputs().tree());
    visit(call.attributes().tree());
  }

  void checkAccess(const Select& select) {
    const std::string name = dottedName(select.tree());
    const std::string root = name.substr(0, name.find('.'));
    if (name.starts_with("CONSTANTS.c") &&
        name.find_first_not_of("0123456789", 11) == std::string::npos)
      return;
    if (root == "__torch__") return checkDefined(select.tree());
    if (isNamespace(root)) {
      refuse(select.tree(), "uses '" + name + "' in a way that hides what it calls");
    }
    visit(select.value().tree());
    checkMember(select.tree(), select.value().tree(), select.selector().name(), false);
  }

  // A function, a class, a class's constructor or an enum's value.
  void checkDefined(const TreeRef& tree) const {
    const std::string name = dottedName(tree);
    const ClassInfo* owner = program_.find(name.substr(0, name.rfind('.')));
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool member = owner && (last == "__new__" || owner->attributes.contains(last));
    if (program_.functions.contains(name) || program_.find(name) || member) return;
    refuse(tree, "uses '" + name + "', which it does not define");
  }

  // `receiver.name`: an attribute or method of a class of the archive, or an operator with the
  // receiver as its first operand.
  void checkMember(const TreeRef& place, const TreeRef& receiver, const std::string& name,
                   bool call) const {
    const ClassInfo* type = program_.find(classOf(receiver, scope_, program_));
    if (type && (type->methods.contains(name) || type->attributes.contains(name))) return;
    const std::string op = "aten::" + name;
    const bool is_operator =
        !isAllowedOperator(op) && !getAllOperatorsFor(Symbol::fromQualString(op)).empty();
    if (is_operator || (call && grad_mode_)) checkOperator(place, op);
  }

  const std::string& path_;
  const Program& program_;
  Scope scope_;
  bool grad_mode_ = false;
};

}  // namespace

void checkCode(const std::string& path, const CodeFile& file, const Program& program) {
  Checker checker(path, program);
  for (const TreeRef& tree : file.definitions) {
    if (tree->kind() == TK_DEF) {
      checker.checkFunction(Def(tree), nullptr);
      continue;
    }
    const ClassDef definition(tree);
    checker.checkClass(definition, *program.find(file.qualifier + "." + definition.name().name()));
  }
}

void checkTypeText(const std::string& path, const std::string& type, const Program& program) {
  checkCodeDepth(path, "type tag", type, ScanLimits{});
  Parser parser(std::make_shared<Source>(type, "type tag", 1));
  Checker(path, program).checkType(parser.parseExp().tree());
}

}  // namespace chorus::scan
