// The judge of certificates. Small, separate, and the only reason to believe a proof: it knows nothing of how the
// prover found the map. Links LibTorch and certificate.h only.
#pragma once

#include <string>
#include <vector>

#include "chorus/certificate.h"
#include "chorus/member.h"

namespace chorus {

/// Empty if the certificate proves the members equal (see docs/architecture.md, "Prove"); else what is wrong.
std::string checkCertificate(const Certificate& certificate, const std::vector<Member>& members);

}  // namespace chorus
