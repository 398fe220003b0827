#include "runtime/metrics.h"

#include <cmath>
#include <limits>

#include "chorus/trainer.h"
#include "lib/export/state.h"

namespace chorus {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<double> toVector(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kCPU, at::kDouble).contiguous();
  const double* data = flat.data_ptr<double>();
  return {data, data + flat.numel()};
}

/// N of "topN"; 1 of "accuracy"; 0 of the others.
int64_t topCount(const std::string& name) {
  if (name == "accuracy") return 1;
  if (name.rfind("top", 0) != 0 || name.size() < 4 || name.size() > 7) return 0;
  int64_t count = 0;
  for (const char c : name.substr(3)) {
    if (c < '0' || c > '9') return 0;
    count = 10 * count + (c - '0');
  }
  return count;
}

/// [n,...] -> [n], summed in fp64.
at::Tensor perMember(const at::Tensor& values) {
  return values.reshape({values.size(0), -1}).to(at::kDouble).sum(1);
}

/// [n,N,...] in the order of a member's own elements.
at::Tensor stackedLike(const at::Tensor& target, const at::Tensor& output, int64_t drop) {
  return target.dim() == output.dim() - drop ? target : target.unsqueeze(0);
}

/// Right predictions of [n,N,C] in one pass: an epoch asks for them at every step.
template <typename T>
void countRight(const at::Tensor& output, const at::Tensor& target, bool stacked, int64_t ignored,
                double* right, double* counted) {
  const int64_t n = output.size(0), rows = output.size(1), classes = output.size(2);
  const T* scores = output.data_ptr<T>();
  const int64_t* labels = target.data_ptr<int64_t>();
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < rows; ++i, scores += classes) {
      const int64_t label = labels[stacked ? k * rows + i : i];
      if (label == ignored) continue;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        if (scores[c] > scores[best] || std::isnan(scores[c])) {
          best = c;
          if (std::isnan(scores[c])) break;
        }
      }
      right[k] += best == label;
      counted[k] += 1;
    }
  }
}

}  // namespace

void LossMean::add(const at::Tensor& losses, const SubGroup& group, const at::Tensor& weight) {
  const std::vector<double> values = toVector(losses.detach());
  const std::vector<double> counts =
      weight.defined() ? toVector(weight.to(at::kDouble).sum(1))
                       : std::vector<double>(group.count, static_cast<double>(group.rows));
  for (size_t i = 0; i < group.count; ++i) {
    if (counts[i] == 0) continue;
    sums_[group.begin + i] += values[i] * counts[i];
    rows_[group.begin + i] += counts[i];
  }
}

std::vector<double> LossMean::values() const {
  std::vector<double> means;
  for (size_t k = 0; k < sums_.size(); ++k) {
    means.push_back(rows_[k] > 0 ? sums_[k] / rows_[k] : kNone);
  }
  return means;
}

std::vector<std::string> defaultMetrics(const FusedModel& model, const Dataset& data) {
  if (!model.loss || !data.target) return {};
  const TargetRule rule = findLoss(model.loss->name).target(lossRequest(model));
  const bool classes = rule.class_indices && data.target->values.scalar_type() == at::kLong;
  return classes ? std::vector<std::string>{"accuracy"} : std::vector<std::string>{};
}

Metrics::Metrics(const FusedModel& model, const Dataset& data,
                 const std::vector<std::string>& names)
    : k_(static_cast<int64_t>(model.k())), names_(names), scores_(model.k()), rows_(model.k()) {
  static const std::vector<std::string> known = {"accuracy", "top5", "f1", "auroc",
                                                 "mse",      "mae",  "r2", "perplexity"};
  if (names_.empty()) names_ = defaultMetrics(model, data);
  if (!model.loss) return;
  const TargetRule rule = findLoss(model.loss->name).target(lossRequest(model));
  ignored_ = rule.ignored;
  output_ = rule.output;
  threshold_ = rule.threshold;
  for (const std::string& name : names_) {
    if (isMetricFile(name)) {
      if (!data.target) throw Refused(error("the metric '" + name + "' needs a target"));
      scripted_[name] = std::make_shared<const ScriptedMetric>(name);
      class_target_ = data.target->values.scalar_type() == at::kLong && rule.class_indices;
      continue;
    }
    if (topCount(name) == 0 && std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      throw Refused(usage("there is no metric '" + name + "'" +
                          (near.empty() ? "" : "; did you mean '" + near + "'?")));
    }
    if (name == "perplexity") continue;
    if (!data.target) throw Refused(error("the metric '" + name + "' needs a target"));
    const bool classes = data.target->values.scalar_type() == at::kLong && rule.class_indices;
    class_target_ = classes;
    if (topCount(name) > 0 && !classes) {
      throw Refused(error("the metric '" + name + "' is for class numbers"));
    }
    if ((name == "f1" || name == "auroc") && rule.class_indices && !classes) {
      throw Refused(error("the metric '" + name + "' is for class numbers, or for zeros and ones"));
    }
    if ((name == "mse" || name == "mae" || name == "r2") && classes) {
      throw Refused(error("the metric '" + name + "' is for targets of the output's shape"));
    }
  }
}

at::Tensor& Metrics::sum(const std::string& name, at::IntArrayRef sizes) {
  const auto found = sums.find(name);
  if (found != sums.end()) return found->second;
  std::vector<int64_t> all = sizes.vec();
  all.insert(all.begin(), k_);
  return sums[name] = at::zeros(all, at::kDouble);
}

void Metrics::addSums(const std::string& name, const at::Tensor& values, const SubGroup& group) {
  const auto begin = static_cast<int64_t>(group.begin), count = static_cast<int64_t>(group.count);
  sum(name, values.sizes().slice(1)).narrow(0, begin, count).add_(values.to(at::kDouble));
}

void Metrics::addClasses(const std::string& name, const at::Tensor& output,
                         const at::Tensor& target, const SubGroup& group) {
  const int64_t axis = output.dim() > 2 ? 2 : 1;  // [n,N,C,...]
  const at::Tensor wanted = stackedLike(target, output, 1);
  const bool simple = name == "accuracy" && output.dim() == 3 && output.is_cpu() &&
                      output.scalar_type() == at::kFloat && ignored_.size() == 1;
  if (simple) {
    const auto begin = static_cast<int64_t>(group.begin);
    countRight<float>(output.contiguous(), wanted.contiguous(),
                      wanted.size(0) == output.size(0) && wanted.size(0) > 1, ignored_[0],
                      sum("accuracy.right", {}).data_ptr<double>() + begin,
                      sum("accuracy.counted", {}).data_ptr<double>() + begin);
    return;
  }
  const int64_t top = std::min(topCount(name), output.size(axis));
  const at::Tensor predicted = std::get<1>(output.topk(top, axis));  // [n,N,top,...]
  const at::Tensor labels = wanted.unsqueeze(axis);
  at::Tensor counts = at::ones_like(predicted.select(axis, 0), at::kBool);
  if (ignored_.size() == 1) {
    counts = wanted.ne(ignored_[0]).expand_as(counts);
  } else if (!ignored_.empty()) {
    std::vector<int64_t> sizes(counts.dim(), 1);
    sizes[0] = k_;
    const auto begin = static_cast<int64_t>(group.begin), n = static_cast<int64_t>(group.count);
    counts = wanted.ne(at::tensor(ignored_, at::kLong).view(sizes).narrow(0, begin, n));
  }
  const at::Tensor right = predicted.eq(labels).any(axis).logical_and(counts);
  addSums(name + ".right", perMember(right), group);
  addSums(name + ".counted", perMember(counts.expand_as(right)), group);
}

void Metrics::addNumbers(const std::string& name, const at::Tensor& output,
                         const at::Tensor& target, const SubGroup& group) {
  const at::Tensor o = output.to(at::kDouble);
  const at::Tensor t = stackedLike(target, output, 0).to(at::kDouble).expand_as(o);
  const at::Tensor gap = o - t;
  if (name == "mse" || name == "mae") {
    addSums(name + ".sum", perMember(name == "mse" ? gap * gap : gap.abs()), group);
    addSums(name + ".counted", perMember(at::ones_like(gap)), group);
    return;
  }
  // Per column [n,N,D]: r2 = 1 - sum gap^2 / (sum t^2 - (sum t)^2 / N).
  const auto columns = [](const at::Tensor& x) {
    return x.reshape({x.size(0), x.size(1), -1}).sum(1);
  };
  addSums("r2.residual", columns(gap * gap), group);
  addSums("r2.sum", columns(t), group);
  addSums("r2.squares", columns(t * t), group);
  addSums("r2.rows", at::full({t.size(0)}, static_cast<double>(t.size(1)), at::kDouble), group);
}

void Metrics::addScores(const at::Tensor& output, const at::Tensor& target, const SubGroup& group) {
  const at::Tensor wanted = stackedLike(target, output, class_target_ ? 1 : 0);
  for (size_t i = 0; i < group.count; ++i) {
    const auto row = static_cast<int64_t>(i);
    const size_t k = group.begin + i;
    at::Tensor labels = wanted.size(0) == 1 ? wanted[0] : wanted[row], scores = output[row];
    if (class_target_) {  // [N,C,...] -> [(N ...),C], without those that the loss ignores
      labels = labels.flatten();
      if (scores.dim() > 1) scores = scores.movedim(1, -1).flatten(0, -2);
      const at::Tensor counts = ignored_.empty()
                                    ? at::ones_like(labels, at::kBool)
                                    : labels.ne(ignored_.size() == 1 ? ignored_[0] : ignored_[k]);
      scores = scores.index({counts});
      labels = labels.index({counts});
    }
    scores_[k].emplace_back(scores.detach().to(at::kDouble), labels.to(at::kDouble));
  }
}

void Metrics::addRows(const at::Tensor& output, const at::Tensor& target, const SubGroup& group) {
  const at::Tensor wanted = stackedLike(target, output, class_target_ ? 1 : 0);
  for (size_t i = 0; i < group.count; ++i) {
    const auto row = static_cast<int64_t>(i);
    rows_[group.begin + i].emplace_back(output[row].detach(),
                                        wanted.size(0) == 1 ? wanted[0] : wanted[row]);
  }
}

void Metrics::add(const std::vector<at::Tensor>& outputs, const at::Tensor& target,
                  const SubGroup& group) {
  const at::NoGradGuard no_grad;
  const at::Tensor& output = outputs.at(output_);
  if (output.dim() == 2 && output.size(1) == 0) return;  // the other mode alone has it
  if (!scripted_.empty()) addRows(output, target, group);
  for (const std::string& name : names_) {
    if (isMetricFile(name)) continue;
    if (topCount(name) > 0) {
      addClasses(name, output, target, group);
    } else if (name == "f1" || name == "auroc") {
      if (name == "f1" && std::count(names_.begin(), names_.end(), "auroc")) continue;
      addScores(output, target, group);
    } else if (name != "perplexity") {
      addNumbers(name, output, target, group);
    }
  }
}

double areaUnderCurve(const at::Tensor& scores, const at::Tensor& flags) {
  const auto [sorted, order] = scores.flatten().sort();
  const at::Tensor positive = flags.flatten().index_select(0, order).contiguous();
  const at::Tensor values = sorted.contiguous();
  const double* s = values.data_ptr<double>();
  const double* f = positive.data_ptr<double>();
  double below = 0, pairs = 0, positives = 0;
  const int64_t n = values.numel();
  for (int64_t i = 0; i < n;) {
    double tied_positive = 0, tied_negative = 0;
    const double at = s[i];
    for (; i < n && s[i] == at; ++i) (f[i] > 0.5 ? tied_positive : tied_negative) += 1;
    pairs += tied_positive * (below + tied_negative / 2);
    below += tied_negative;
    positives += tied_positive;
  }
  return positives > 0 && below > 0 ? pairs / (positives * below) : kNone;
}

namespace {

/// The rows of one member: scores [N] or [N,C], and labels [N].
struct Rows {
  at::Tensor scores, labels;
};

Rows concatenated(const std::vector<std::pair<at::Tensor, at::Tensor>>& parts) {
  std::vector<at::Tensor> scores, labels;
  for (const auto& [score, label] : parts) {
    scores.push_back(score);
    labels.push_back(label);
  }
  if (parts.empty()) return {};
  return {at::cat(scores), at::cat(labels)};
}

Rows joined(const std::vector<std::pair<at::Tensor, at::Tensor>>& parts) {
  Rows rows = concatenated(parts);
  if (rows.scores.dim() == 2 && rows.scores.size(1) == 1) rows.scores = rows.scores.select(1, 0);
  if (rows.scores.dim() == 1 && rows.labels.dim() == 2) rows.labels = rows.labels.select(1, 0);
  return rows;
}

double meanOf(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return values.empty() ? kNone : total / static_cast<double>(values.size());
}

/// Zeros and ones in columns.
bool inColumns(const Rows& rows) { return rows.labels.dim() > 1; }

template <typename Score>
double meanOfColumns(const Rows& rows, const Score& score) {
  const at::Tensor scores = rows.scores.flatten(1), labels = rows.labels.flatten(1);
  std::vector<double> values;
  for (int64_t c = 0; c < scores.size(1); ++c)
    values.push_back(score(Rows{scores.select(1, c), labels.select(1, c)}));
  return meanOf(values);
}

double auroc(const Rows& rows) {
  if (inColumns(rows)) return meanOfColumns(rows, auroc);
  if (rows.scores.dim() == 1) return areaUnderCurve(rows.scores, rows.labels);
  const int64_t classes = rows.scores.size(1);
  if (classes == 2) {
    return areaUnderCurve(rows.scores.select(1, 1) - rows.scores.select(1, 0), rows.labels);
  }
  const at::Tensor shares = rows.scores.softmax(1);
  std::vector<double> areas;
  for (int64_t c = 0; c < classes; ++c) {
    areas.push_back(areaUnderCurve(shares.select(1, c), rows.labels.eq(c).to(at::kDouble)));
  }
  return meanOf(areas);
}

double f1(const Rows& rows, double threshold) {
  if (inColumns(rows))
    return meanOfColumns(rows, [&](const Rows& column) { return f1(column, threshold); });
  const bool binary = rows.scores.dim() == 1;
  const at::Tensor predicted =
      binary ? rows.scores.gt(threshold).to(at::kLong) : rows.scores.argmax(1);
  const at::Tensor labels = rows.labels.to(at::kLong);
  std::vector<double> values;
  const int64_t last = binary ? 2 : rows.scores.size(1);
  for (int64_t c = binary ? 1 : 0; c < last; ++c) {
    const at::Tensor mine = predicted.eq(c), wanted = labels.eq(c);
    const auto all = (mine.sum() + wanted.sum()).item<double>();
    if (all == 0) continue;  // the class does not occur
    values.push_back(2 * mine.logical_and(wanted).sum().item<double>() / all);
  }
  return meanOf(values);
}

}  // namespace

std::map<std::string, std::vector<double>> Metrics::values(const std::vector<double>& loss) const {
  std::map<std::string, std::vector<double>> all;
  for (const std::string& name : names_) {
    std::vector<double>& values = all[metricTitle(name)];
    if (isMetricFile(name)) {
      for (const Parts& parts : rows_) {
        const Rows rows = concatenated(parts);
        values.push_back(parts.empty() ? kNone : (*scripted_.at(name))(rows.scores, rows.labels));
      }
      continue;
    }
    if (name == "perplexity") {
      for (const double one : loss) values.push_back(std::exp(one));
    } else if (name == "f1" || name == "auroc") {
      for (const auto& parts : scores_) {
        values.push_back(parts.empty()  ? kNone
                         : name == "f1" ? f1(joined(parts), threshold_)
                                        : auroc(joined(parts)));
      }
    } else if (name == "r2" && sums.count("r2.rows")) {
      const at::Tensor total =
          sums.at("r2.squares") - sums.at("r2.sum").square() / sums.at("r2.rows").unsqueeze(1);
      values = toVector((1 - sums.at("r2.residual") / total).mean(1));
    } else if (sums.count(name + ".counted")) {
      const std::string top = topCount(name) > 0 ? ".right" : ".sum";
      values = toVector(sums.at(name + top) / sums.at(name + ".counted"));
    } else {
      values.assign(static_cast<size_t>(k_), kNone);
    }
  }
  return all;
}

}  // namespace chorus
