// Proving that K members compute the same function of their weights.
#pragma once

#include <memory>
#include <vector>

#include "chorus/certificate.h"
#include "chorus/member.h"

namespace chorus {

/// Finds the certificate, or throws Refused with one message per group of odd members (majority first, at most five
/// groups, then a count), each with the user's own place and both values.
Certificate prove(const std::vector<Member>& members);

/// Hash of the structure: ops, attributes, wiring, slot roles, shapes, dtypes, ties; no names, no tensor values
/// other than constants.
uint64_t structuralHash(const Member& member);

}  // namespace chorus
