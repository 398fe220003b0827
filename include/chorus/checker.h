// The judge of certificates. Small, separate, and the only reason to believe a proof: it knows
// nothing of how the prover found the map. Links LibTorch and certificate.h only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chorus/certificate.h"
#include "chorus/member.h"

namespace chorus {

/// Where a certificate fails, as far as one node is to blame.
struct FaultPlace {
  size_t member = 0;              ///< whose map is wrong
  bool in_eval = false;           ///< the graph
  std::optional<size_t> node;     ///< of member 0, in graph order
  std::optional<size_t> operand;  ///< of that node
};

/// Empty if the certificate proves the members equal (see docs/architecture.md, "Prove"); else what
/// is wrong, and in `place`, if given, where.
std::string checkCertificate(const Certificate& certificate, const std::vector<Member>& members,
                             FaultPlace* place = nullptr);

}  // namespace chorus
