#include "chorus/batching_rule.h"

namespace chorus {

const std::vector<RuleRows>& ruleTable();  // generated from the files of lib/batching/rules/

const std::vector<RuleRow>& allRules() {
  static const std::vector<RuleRow> rules = [] {
    std::vector<RuleRow> all;
    for (const RuleRows& rows : ruleTable()) all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return rules;
}

const RuleRow* findRule(const std::string& op) {
  static const std::unordered_map<std::string, const RuleRow*> by_op = [] {
    std::unordered_map<std::string, const RuleRow*> index;
    for (const RuleRow& row : allRules()) {
      if (!index.emplace(row.op, &row).second) {
        throw Refused(internalError("two batching rules for " + row.op));
      }
    }
    return index;
  }();
  const auto found = by_op.find(op);
  return found == by_op.end() ? nullptr : found->second;
}

}  // namespace chorus
