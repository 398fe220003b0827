// The names that one function of an archive binds.
#pragma once

#include <map>
#include <set>
#include <string>

#include "lib/scan/code_scan.h"

namespace chorus::scan {

struct Scope {
  std::set<std::string> bound;
  /// Variables whose only binding has a class of the archive as its type: name -> qualified class.
  std::map<std::string, std::string> classes;
};

/// `torch`, `ops`, `CONSTANTS`, `__torch__`: where LibTorch looks up operators, constants and
/// classes.
bool isNamespace(const std::string& name);

/// Refuses functions that bind a name which means something else to LibTorch (a namespace,
/// `getattr`, `print`, ...).
Scope bindNames(const torch::jit::Def& function, const Program& program, const std::string& path);

/// The class of an expression's value where it is one of the archive's, else "".
std::string classOf(const torch::jit::TreeRef& expression, const Scope& scope,
                    const Program& program);

}  // namespace chorus::scan
