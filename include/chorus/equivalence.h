// Proving that K members compute the same function of their weights.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "chorus/certificate.h"
#include "chorus/member.h"

namespace chorus {

/// Finds the certificate, or throws Refused with one message per group of odd members (majority
/// first, at most five groups, then a count), each with the user's own place and both values. The
/// verdict does not depend on the members' order. Linear in the members and in the nodes.
Certificate prove(const std::vector<Member>& members);

/// Members that are equal, and the proof (its entries in the order of `members`).
struct ProvedGroup {
  std::vector<size_t> members;  ///< ascending
  Certificate certificate;
};
/// The fewest groups: every member is in the one group whose members it equals. Largest first, of
/// equally large ones the one with the lowest member number first.
std::vector<ProvedGroup> proveGroups(const std::vector<Member>& members);

/// proveGroups and prove; but where members were written in two ways, they are first rewritten
/// alike, and nothing else changes:
/// - constants are pooled by content when a member is read, so two tables that hold the same
///   numbers by chance are one slot in this member and two in another. They get one slot for each
///   table that is one of its own in any of them
/// - with `mixed_momentum`: a scripted batch norm whose momentum is None moves its statistics by
///   1 / count beside one that moves them by a number: both move them by a / count + b. None is
///   another kind of mean, not another value, so members mix the two only where the user says so
std::vector<ProvedGroup> proveGroupsUnifying(std::vector<Member>& members, bool mixed_momentum);
Certificate proveUnifying(std::vector<Member>& members, bool mixed_momentum);

/// Hash of the structure: ops, invariant attributes, wiring, slot roles, shapes, dtypes, ties; no
/// names, no values of tensors or of varying attributes. Equal on every machine; defined in
/// lib/equivalence/structural_hash.h.
uint64_t structuralHash(const Member& member);
/// The same with the values of varying attributes.
uint64_t functionHash(const Member& member);

/// For chorus.json and reports. Equal maps are written once; kNoNode is -1, hashes are 16 hex
/// digits.
nlohmann::json toJson(const Certificate& certificate);
/// Throws Refused where `json` is damaged. What it returns is data, to be judged by the checker.
Certificate certificateFromJson(const nlohmann::json& json);

}  // namespace chorus
