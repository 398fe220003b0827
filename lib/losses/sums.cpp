#include "lib/losses/sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"
#include "lib/losses/common_target.h"
#include "lib/losses/scripted.h"

namespace chorus::losses {
namespace {

struct Term {
  double factor = 1;
  std::string name;
  size_t output = 0;
};

[[noreturn]] void malformed(const std::string& text, const std::string& term) {
  throw Refused(usage("--loss '" + text + "': '" + term + "' is not of the form FACTOR*NAME@OUTPUT")
                    .helpWith("e.g. --loss \"cross_entropy@0 + 0.4*cross_entropy@1\""));
}

Term termFrom(const std::string& all, std::string text) {
  std::erase(text, ' ');
  Term term;
  if (const size_t star = text.find('*'); star != std::string::npos) {
    char* end = nullptr;
    const std::string factor = text.substr(0, star);
    term.factor = std::strtod(factor.c_str(), &end);
    if (factor.empty() || *end || !std::isfinite(term.factor)) malformed(all, text);
    text.erase(0, star + 1);
  }
  if (const size_t at = text.find('@'); at != std::string::npos) {
    const std::string digits = text.substr(at + 1);
    if (digits.empty() || digits.size() > 4 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      malformed(all, text);
    }
    term.output = std::stoul(digits);
    text.erase(at);
  }
  term.name = text;
  if (text.empty()) malformed(all, text);
  return term;
}

/// A '+' behind a blank or a name parts terms; one behind "e" is an exponent's.
std::vector<Term> anyTermsOf(const std::string& text) {
  std::vector<Term> terms;
  std::string part;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool exponent =
        i >= 2 && (text[i - 1] == 'e' || text[i - 1] == 'E') &&
        (std::isdigit(static_cast<unsigned char>(text[i - 2])) || text[i - 2] == '.');
    if (i == text.size() || (text[i] == '+' && !exponent)) {
      terms.push_back(termFrom(text, part));
      part.clear();
    } else {
      part += text[i];
    }
  }
  return terms;
}

std::vector<Term> termsOf(const std::string& text) {
  std::vector<Term> terms = anyTermsOf(text);
  for (const Term& term : terms) findLoss(term.name);
  return terms;
}

std::string textOf(const Term& term) {
  return (term.factor == 1 ? "" : numberText(term.factor) + "*") + term.name + "@" +
         std::to_string(term.output);
}

/// What the term sees: the outputs from its own on, and the arguments it knows.
LossRequest requestOf(const LossRequest& request, const Term& term) {
  LossRequest mine = request;
  const LossDefinition& definition = findLoss(term.name);
  if (term.output >= request.output_ranks.size()) {
    throw Refused(error("the loss takes output " + std::to_string(term.output) +
                        ", but the model has " + std::to_string(request.output_ranks.size())));
  }
  const auto skip = static_cast<std::ptrdiff_t>(term.output);
  mine.output_ranks.erase(mine.output_ranks.begin(), mine.output_ranks.begin() + skip);
  mine.output_dtypes.erase(mine.output_dtypes.begin(), mine.output_dtypes.begin() + skip);
  mine.output_sizes.erase(mine.output_sizes.begin(), mine.output_sizes.begin() + skip);
  mine.spec.name = term.name;
  const auto foreign = [&](const auto& entry) {
    if (term.name == kScripted) return !isOfScripted(entry.first);
    return !std::count(definition.arguments.begin(), definition.arguments.end(), entry.first);
  };
  std::erase_if(mine.spec.arguments, foreign);
  std::erase_if(mine.spec.tensors, foreign);
  if (term.name == kScripted) {
    const size_t taken = std::min(mine.output_ranks.size(), scriptedOutputs(mine.spec));
    mine.output_ranks.resize(taken);
    mine.output_dtypes.resize(taken);
    mine.output_sizes.resize(taken);
  }
  return mine;
}

LossCode build(const std::vector<Term>& terms, const LossRequest& request) {
  LossCode code;
  std::string sum, methods;
  for (size_t i = 0; i < terms.size(); ++i) {
    const std::string name = "chorus_losses_" + std::to_string(i);
    const LossCode one = findLoss(terms[i].name).build(requestOf(request, terms[i]));
    code.constants.insert(one.constants.begin(), one.constants.end());
    code.shared_constants.insert(one.shared_constants.begin(), one.shared_constants.end());
    if (!one.graphs.empty()) {  // of the one term that is a file
      code.graphs = one.graphs;
      code.graph_tensors = one.graph_tensors;
    }
    const std::string outputs =
        terms[i].output == 0 ? "outputs" : "outputs[" + std::to_string(terms[i].output) + ":]";
    std::string factor = numberText(terms[i].factor);
    if (factor.find_first_of(".e") == std::string::npos) factor += ".0";
    // An output that this mode has not is [K,0]: its term counts for nothing.
    const std::string other = "outputs[" + std::to_string(terms[i].output) + "]";
    const std::string value = "self." + name + "(" + outputs + ", target)";
    sum += (i ? " + " : "") + (terms[i].factor == 1 ? "" : factor + " * ") +
           (terms[i].output == 0
                ? value
                : "(" + value + " if " + other + ".dim() != 2 or " + other +
                      ".size(1) != 0 else outputs[0].new_zeros([outputs[0].size(0)]))");
    methods +=
        "\ndef " + name + "(self, outputs: List[Tensor], target: Tensor) -> Tensor:\n" + one.body;
  }
  code.body = "    return " + sum + "\n" + methods;
  return code;
}

/// All terms see the same target.
TargetRule targetOf(const std::vector<Term>& terms, const LossRequest& request) {
  std::optional<Taker> taken;
  for (const Term& term : terms) {
    const LossDefinition& one = findLoss(term.name);
    if (!one.takes_target) continue;
    Taker mine{textOf(term), one.target(requestOf(request, term))};
    mine.rule.output += term.output;
    if (taken) mine = {taken->text, commonTarget(*taken, mine)};
    taken = mine;
  }
  return taken ? taken->rule : TargetRule{};
}

LossDefinition define(const std::string& name) {
  const std::vector<Term> terms = termsOf(name);
  LossDefinition d;
  d.name = name;
  d.summary = "a weighted sum";
  d.takes_target = false;
  std::set<std::string> arguments;
  for (const Term& term : terms) {
    const LossDefinition& one = findLoss(term.name);
    arguments.insert(one.arguments.begin(), one.arguments.end());
    d.by_rows = d.by_rows && one.by_rows;
    if (!one.more_targets.empty()) {
      throw Refused(unsupported("'" + one.name + "' as a term of a sum of losses"));
    }
    d.takes_target = d.takes_target || one.takes_target;
  }
  d.arguments.assign(arguments.begin(), arguments.end());
  d.target = [terms](const LossRequest& request) { return targetOf(terms, request); };
  d.build = [terms, d](const LossRequest& request) {
    LossRequest known = request;
    std::erase_if(known.spec.arguments,
                  [](const auto& entry) { return isOfScripted(entry.first); });
    std::erase_if(known.spec.tensors, [](const auto& entry) { return isOfScripted(entry.first); });
    checkLossArguments(d, known);
    targetOf(terms, request);
    return losses::build(terms, request);
  };
  return d;
}

}  // namespace

bool isSum(const std::string& name) { return name.find_first_of("@+*") != std::string::npos; }

std::optional<FileTerm> fileTerm(const std::string& text) {
  std::optional<FileTerm> found;
  std::string sum;
  for (Term& term : anyTermsOf(text)) {
    if (isLossFile(term.name)) {
      if (found) {
        throw Refused(unsupported("two scripted losses in a sum of losses, '" + found->file +
                                  "' and '" + term.name + "'")
                          .helpWith("forward of one can return the sum of both"));
      }
      found = FileTerm{"", term.name};
      term.name = kScripted;
    }
    sum += (sum.empty() ? "" : " + ") + textOf(term);
  }
  if (found) found->sum = sum;
  return found;
}

std::string withoutPenalties(const std::string& name) {
  if (!isSum(name)) return name.ends_with("_penalty") ? "" : name;
  const auto isPenalty = [](const Term& term) { return term.name.ends_with("_penalty"); };
  const std::vector<Term> terms = termsOf(name);
  if (std::none_of(terms.begin(), terms.end(), isPenalty)) return name;
  std::string kept;
  for (const Term& term : terms) {
    if (isPenalty(term)) continue;
    kept += (kept.empty() ? "" : " + ") + textOf(term);
  }
  return kept;
}

const LossDefinition& sumOf(const std::string& name) {
  static std::map<std::string, LossDefinition> known;
  static std::mutex lock;
  const std::scoped_lock guard(lock);
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, define(name)).first->second;
}

}  // namespace chorus::losses
