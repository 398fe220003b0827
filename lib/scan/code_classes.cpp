#include <torch/csrc/jit/frontend/parser.h>

#include "lib/scan/code_scan.h"
#include "lib/scan/code_tree.h"
#include "lib/scan/refuse.h"

namespace chorus::scan {
namespace {

using namespace torch::jit;

// Written by torch for `with torch.no_grad()`, and by chorus into fused files.
bool isGradModeClass(const std::string& name) {
  static const std::set<std::string> known = {
      "__torch__.torch.autograd.grad_mode.no_grad",
      "__torch__.torch.autograd.grad_mode.enable_grad",
      "__torch__.torch.autograd.grad_mode.set_grad_enabled"};
  return known.contains(withoutMangling(name)) || isFusedGradMode(name);
}

ClassInfo::Kind kindOf(const std::string& path, const std::string& name,
                       const ClassDef& definition) {
  if (!definition.superclass().present()) {
    if (isGradModeClass(name)) return ClassInfo::Kind::GradMode;
    if (withoutMangling(name) == "__torch__.torch.amp.autocast_mode.autocast")
      return ClassInfo::Kind::Autocast;
    throw refusedAt(path, definition.range(),
                    "the class '" + name + "' is neither a module nor a NamedTuple nor an Enum");
  }
  const std::string super = dottedName(definition.superclass().get().tree());
  if (super == "Module") return ClassInfo::Kind::Module;
  if (super == "NamedTuple") return ClassInfo::Kind::NamedTuple;
  if (super == "Enum") return ClassInfo::Kind::Enum;
  throw refusedAt(path, definition.range(),
                  "the class '" + name + "' is a '" + super +
                      "'; only Module, NamedTuple and Enum are accepted");
}

void addMethod(const std::string& path, ClassInfo& info, const Def& method) {
  const std::string& name = method.name().name();
  if (name == "__setstate__" || name == "__getstate__") {
    throw refusedAt(path, method.range(),
                    "the class '" + info.name + "' defines '" + name +
                        "', code that runs when the file is loaded");
  }
  if (info.kind == ClassInfo::Kind::NamedTuple || info.kind == ClassInfo::Kind::Enum) {
    throw refusedAt(path, method.range(),
                    "the class '" + info.name + "' has the method '" + name +
                        "', but a NamedTuple or Enum has none");
  }
  info.methods.insert(name);
}

// `name : T`, `name : Final[T] = value`, `__annotations__["0"] = T`, and for enums `NAME = value`.
void addAttribute(ClassInfo& info, const Assign& assign) {
  const TreeRef& target = assign.lhs().tree();
  if (target->kind() == TK_SUBSCRIPT) {
    const auto names = Subscript(assign.lhs()).subscript_exprs();
    if (names.size() != 1 || names[0].kind() != TK_STRINGLITERAL || !assign.rhs().present()) return;
    info.attributes[StringLiteral(names[0]).text()] = dottedName(assign.rhs().get().tree());
  } else if (target->kind() == TK_VAR) {
    info.attributes[Var(assign.lhs()).name().name()] =
        assign.type().present() ? dottedName(assign.type().get().tree()) : "";
  }
}

ClassInfo describe(const std::string& path, const std::string& name, const ClassDef& definition) {
  ClassInfo info{name, kindOf(path, name, definition), {}, {}};
  if (definition.properties().present() && definition.properties().get().size() > 0) {
    throw refusedAt(path, definition.range(), "the class '" + name + "' has properties");
  }
  for (const auto& statement : definition.body()) {
    if (statement.kind() == TK_DEF) {
      addMethod(path, info, Def(statement.tree()));
    } else if (statement.kind() == TK_ASSIGN) {
      addAttribute(info, Assign(statement.tree()));
    } else if (statement.kind() != TK_PASS) {
      throw refusedAt(path, statement.range(),
                      "the class '" + name + "' holds a statement that is no definition");
    }
  }
  return info;
}

}  // namespace

const ClassInfo* Program::find(const std::string& name) const {
  const auto found = classes.find(name);
  return found == classes.end() ? nullptr : &found->second;
}

Program collectProgram(const std::string& path, const std::vector<CodeFile>& files) {
  Program program;
  for (const CodeFile& file : files) {
    for (const TreeRef& tree : file.definitions) {
      if (tree->kind() == TK_DEF) {
        program.functions.insert(file.qualifier + "." + Def(tree).name().name());
        continue;
      }
      const ClassDef definition(tree);
      const std::string name = file.qualifier + "." + definition.name().name();
      program.fused |= isFusedGradMode(name) && !definition.superclass().present();
      if (!program.classes.emplace(name, describe(path, name, definition)).second) {
        throw refusedAt(path, definition.range(), "the class '" + name + "' is defined twice");
      }
    }
  }
  return program;
}

}  // namespace chorus::scan
