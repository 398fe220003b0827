#include "lib/losses/arguments.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "chorus/diagnostics.h"
#include "lib/export/fill.h"

namespace chorus::losses {

namespace {

double parsed(const std::string& name, const std::string& text, Bounds bounds) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(value)) {
    throw Refused(error("'" + name + "' is not a number: '" + text + "'"));
  }
  if (value < bounds.lowest || value > bounds.highest) {
    std::ostringstream range;
    range << "between " << bounds.lowest << " and " << bounds.highest;
    throw Refused(error("'" + name + "' is " + text + ", which is not " + range.str()));
  }
  return value;
}

const std::vector<std::string>* given(const LossRequest& request, const std::string& name) {
  const auto found = request.spec.arguments.find(name);
  return found == request.spec.arguments.end() || found->second.empty() ? nullptr : &found->second;
}

}  // namespace

std::string numberText(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::vector<double> numbers(const LossRequest& request, const std::string& name,
                            double default_value, Bounds bounds) {
  const auto* texts = given(request, name);
  if (!texts) return {default_value};
  std::vector<double> values;
  for (const std::string& text : *texts) values.push_back(parsed(name, text, bounds));
  return values;
}

std::string number(const LossRequest& request, LossCode& code, const std::string& name,
                   double default_value, size_t rank, Bounds bounds) {
  const std::vector<double> values = numbers(request, name, default_value, bounds);
  if (values.size() == 1) {
    const std::string text = numberText(values[0]);
    const bool integer = text.find_first_of(".en") == std::string::npos;
    return text + (integer ? ".0" : "");
  }
  code.constants["loss_" + name] = at::tensor(values, at::kDouble);
  std::string ones;
  for (size_t i = 1; i < rank; ++i) ones += ", 1";
  return "self.chorus.loss_" + name + ".to(o.dtype).view([-1" + ones + "])";
}

std::string oneText(const LossRequest& request, const std::string& name,
                    const std::string& default_value) {
  const auto* texts = given(request, name);
  if (!texts) return default_value;
  if (std::set<std::string>(texts->begin(), texts->end()).size() > 1) {
    throw Refused(error("'" + name + "' must be the same for all members"));
  }
  return texts->front();
}

bool oneFlag(const LossRequest& request, const std::string& name, bool default_value) {
  const std::string text = oneText(request, name, default_value ? "true" : "false");
  for (const char* yes : {"true", "True", "1"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "False", "0"}) {
    if (text == no) return false;
  }
  throw Refused(error("'" + name + "' is neither true nor false: '" + text + "'"));
}

std::string reduction(const LossRequest& request, const std::vector<std::string>& allowed) {
  const std::string how = oneText(request, "reduction", "mean");
  if (std::count(allowed.begin(), allowed.end(), how)) return how;
  std::string choices;
  for (const std::string& choice : allowed) choices += (choices.empty() ? "" : ", ") + choice;
  Message message = error("reduction is '" + how + "', not one of " + choices);
  if (how == "none") message.note("a member's loss is one number, so it must be reduced");
  throw Refused(message);
}

std::string denseTarget(const std::string& loss) {
  return fill(R"py(
    o = outputs[0]
    assert target.dim() == o.dim() or target.dim() == o.dim() - 1, "$loss: the target has rank {}, which is neither {} (shared) nor {} (stacked)".format(target.dim(), o.dim() - 1, o.dim())
    t = target
    if t.dim() == o.dim():
        assert t.size() == o.size(), "$loss: the stacked target is {} and the output {}".format(t.size(), o.size())
    else:
        assert t.size() == o.size()[1:], "$loss: the target is {} and a member's output {}".format(t.size(), o.size()[1:])
        t = t.unsqueeze(0).expand_as(o)
    t = t.to(o.dtype)
)py",
              {{"loss", loss}});
}

std::string reduced(const std::string& how) {
  return "    return e.unsqueeze(-1).flatten(1)." + how + "(1)\n";
}

LossCode denseLoss(const std::string& name, const std::string& elements, const std::string& how,
                   LossCode code) {
  code.body = denseTarget(name) + elements;
  if (how != "batchmean") {
    code.body += reduced(how);
  } else {
    code.body += "    return e.unsqueeze(-1).flatten(1).sum(1) / o.size(1)\n";
  }
  return code;
}

std::string rowTensor(const LossRequest& request, LossCode& code, const std::string& name,
                      size_t rank) {
  if (request.spec.arguments.count(name)) {
    throw Refused(usage("'" + name + "' of the loss is a file: " + name + "=w.npy"));
  }
  const auto found = request.spec.tensors.find(name);
  if (found == request.spec.tensors.end()) return "";
  const at::Tensor& tensor = found->second;
  const bool shared = tensor.dim() == 1;
  if (rank < 2 || tensor.dim() < 1 || tensor.dim() > 2 ||
      (!shared && tensor.size(0) != static_cast<int64_t>(request.k))) {
    throw Refused(error("'" + name + "' of the loss is neither [C] nor [K,C]"));
  }
  auto& constants = shared ? code.shared_constants : code.constants;
  constants["loss_" + name] = tensor.to(request.output_dtypes.at(0), false, /*copy=*/true);
  const std::string self = "self.chorus.loss_" + name;
  if (shared) return self + ".to(o.dtype)";
  std::string view = self + ".size(0)";
  for (size_t i = 2; i < rank; ++i) view += ", 1";
  return self + ".to(o.dtype).view([" + view + ", -1])";
}

void requireOutputs(const LossRequest& request, const std::string& loss, size_t count,
                    const std::string& what) {
  const size_t have = request.output_ranks.size();
  if (have >= count) return;
  throw Refused(error(loss + " takes " + what + ", but the model has " + std::to_string(have) +
                      (have == 1 ? " output" : " outputs")));
}

void requireRank(const LossRequest& request, const std::string& loss, size_t i, size_t rank) {
  const size_t have = request.output_ranks.at(i);
  if (have == rank) return;
  throw Refused(error(loss + ": output " + std::to_string(i) + " has rank " + std::to_string(have) +
                      ", but it takes one of rank " + std::to_string(rank)));
}

TargetRule denseRule(const LossRequest& request) {
  TargetRule rule;
  rule.dense_rank = request.output_ranks.at(0);
  rule.sizes = request.output_sizes.at(0);
  return rule;
}

}  // namespace chorus::losses
