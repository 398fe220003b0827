#include <torch/csrc/jit/ir/ir.h>

#include "chorus/diagnostics.h"
#include "chorus/pass.h"

namespace chorus {

const std::vector<Pass>& passTable();  // generated from the files of this folder

namespace {

// `--disable lower_layout` and `--lower-layout` name one pass.
std::string normalized(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const Pass& mustFind(const std::string& name) {
  if (const Pass* pass = findPass(name)) return *pass;
  std::vector<std::string> names;
  for (const Pass& pass : allPasses()) names.push_back(pass.name);
  Message message = usage("there is no pass '" + name + "'");
  if (const std::string near = nearest(normalized(name), names); !near.empty()) {
    message.helpWith("did you mean '" + near + "'?");
  }
  throw Refused(message);
}

}  // namespace

const std::vector<Pass>& allPasses() { return passTable(); }

const Pass* findPass(const std::string& name) {
  const std::string wanted = normalized(name);
  for (const Pass& pass : allPasses()) {
    if (pass.name == wanted) return &pass;
  }
  return nullptr;
}

void runPasses(std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::string>& names,
               const std::set<std::string>& disabled) {
  std::set<std::string> off;
  for (const std::string& name : disabled) off.insert(normalized(name));
  for (const std::string& name : names) {
    const Pass& pass = mustFind(name);
    if (off.count(pass.name)) {
      if (pass.optional) continue;
      throw Refused(usage("the pass '" + pass.name + "' cannot be disabled"));
    }
    pass.run(graph);
    graph->lint();
  }
}

}  // namespace chorus
