#include "tools/chorus-opt/steps.h"

#include "chorus/diagnostics.h"
#include "chorus/pass.h"

namespace chorus {
namespace {

std::vector<size_t> parseIndices(const std::string& text) {
  std::vector<size_t> indices;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    size_t used = 0;
    try {
      const size_t first = std::stoul(part, &used);
      size_t last = first;
      if (used < part.size() && part[used] == '-') {
        const std::string rest = part.substr(used + 1);
        last = std::stoul(rest, &used);
        if (used != rest.size()) throw std::invalid_argument(rest);
      } else if (used != part.size()) {
        throw std::invalid_argument(part);
      }
      for (size_t i = first; i <= last; ++i) indices.push_back(i);
    } catch (const std::logic_error&) {
      throw Refused(usage("--batch takes numbers of inputs, e.g. 0,2-5, not '" + text + "'"));
    }
    start = end + 1;
  }
  return indices;
}

bool isIn(const std::string& pass, const std::vector<std::string>& pipeline) {
  const Pass* found = findPass(pass);
  return std::any_of(pipeline.begin(), pipeline.end(),
                     [&](const std::string& name) { return findPass(name) == found; });
}

std::string whereUsed(const Pass& pass) {
  std::vector<std::string> where;
  if (isIn(pass.name, canonicalPipeline())) where.push_back("on a member's graph");
  if (isIn(pass.name, fusedPipeline())) where.push_back("on the fused graph");
  std::string text;
  for (const std::string& one : where) text += (text.empty() ? "" : " and ") + one;
  return text.empty() ? "on demand" : text;
}

}  // namespace

std::vector<Step> takeSteps(std::vector<std::string>& arguments) {
  std::vector<Step> steps;
  std::vector<std::string> rest;
  for (const std::string& argument : arguments) {
    const std::string name = argument.rfind("--", 0) == 0 ? argument.substr(2) : "";
    if (name.rfind("batch=", 0) == 0) {
      steps.push_back({"", parseIndices(name.substr(6))});
    } else if (name == "canonical" || name == "fused") {
      for (const auto& pass : name == "fused" ? fusedPipeline() : canonicalPipeline())
        steps.push_back({pass, {}});
    } else if (const Pass* pass = name.empty() ? nullptr : findPass(name)) {
      steps.push_back({pass->name, {}});
    } else {
      rest.push_back(argument);
    }
  }
  arguments = std::move(rest);
  return steps;
}

std::string passTableText() {
  size_t width = 0;
  for (const Pass& pass : allPasses()) width = std::max(width, pass.name.size());
  std::string text;
  for (const Pass& pass : allPasses()) {
    text += "--" + pass.name + std::string(width - pass.name.size() + 2, ' ') + pass.summary +
            (pass.optional ? " (optional)" : "") + "\n";
  }
  return text;
}

std::string passTableMarkdown() {
  std::string text =
      "# Passes\n\nPrinted by `chorus-opt --list --markdown`. Each is a file of `passes/`; the "
      "order is in "
      "`passes/pipeline.cpp`.\nOptional ones are switched off by `--disable NAME`.\n";
  for (const Pass& pass : allPasses()) {
    text += "\n## " + pass.name + "\n\n" + pass.summary + ". Runs " + whereUsed(pass) + "; " +
            (pass.optional ? "optional" : "always on") + ".\n\n```\n" + pass.description;
    if (pass.description.empty() || pass.description.back() != '\n') text += "\n";
    text += "```\n";
  }
  return text;
}

}  // namespace chorus
