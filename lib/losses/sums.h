// Weighted sums of losses, each of its own outputs: "cross_entropy@0 + 0.4*cross_entropy@1".
#pragma once

#include <optional>
#include <string>

#include "chorus/loss.h"

namespace chorus::losses {

/// The name is a sum, or says which outputs: it is no name of the table.
bool isSum(const std::string& name);

/// TERM + TERM ...; a TERM is [FACTOR*]NAME[@I], where I is the model's output that the loss sees
/// first (default 0). Arguments go to every term that knows them; all terms see the same target.
/// Throws Refused (usage) for text that is not of this form.
const LossDefinition& sumOf(const std::string& name);

/// A term may be a file of a scripted loss, which sees as many outputs as its forward takes.
struct FileTerm {
  std::string sum;  ///< with "scripted" in the place of the file
  std::string file;
};
/// nullopt: no term is a file. Throws Refused (usage) for text that is no sum, (unsupported) for
/// several files.
std::optional<FileTerm> fileTerm(const std::string& text);

/// The sum without the terms that look at parameters only, which no judge of outputs sees; "" where
/// nothing is left.
std::string withoutPenalties(const std::string& name);

}  // namespace chorus::losses
