// `chorus-fuse --check fused.pt a.pt b.pt ...`.
#pragma once

#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// Proves again that the fused file was made from these members: the checker judges the file's own
/// certificate against them, and the file's graphs and varying numbers are compared with what the
/// certificate says. Throws Refused (error) naming what does not hold. Returns what was checked, in
/// words; weights are compared where the file has not been trained.
std::string checkFused(const std::string& path, std::vector<Member> members);

}  // namespace chorus
