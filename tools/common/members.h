// The MEMBER arguments: lists, names, and what must not be overwritten.
#pragma once

#include <string>
#include <vector>

namespace chorus {

/// Replaces each "@list.txt" by the names in that file, one a line, relative to the list's folder.
/// Blank lines and lines that begin with '#' are skipped; CRLF and a byte order mark are fine.
/// Lists do not nest. Throws Refused (error) where a list cannot be read or names nothing.
std::vector<std::string> expandLists(const std::vector<std::string>& arguments);

/// Names members after their files without folder and ending; equal names get ".0", ".1", ... in
/// order. Throws Refused (error) on a name that could not be a file's (names.h).
std::vector<std::string> memberNames(const std::vector<std::string>& paths);

/// Throws Refused (usage, exit 2) where `output` is one of `inputs`: the same file, whatever the
/// name.
void refuseOverwriting(const std::string& output, const std::vector<std::string>& inputs);

/// Throws Refused (error) where `output` cannot be created, before any work is done: its folder is
/// missing or not writable, or it is a folder itself. Leaves nothing behind.
void requireWritable(const std::string& output);

}  // namespace chorus
