// The formats of data files besides NumPy's.
#pragma once

#include <string>
#include <vector>

#include "chorus/data.h"

namespace chorus {

/// IDX, as MNIST comes: by its first four bytes.
bool isIdx(const std::string& head);
/// The array of the file. Bytes of rank 2 or more are images: f32 in 0..1, and [N,H,W] becomes
/// [N,1,H,W]. Throws Refused (error) for a file that is cut off or too long.
at::Tensor readIdx(const std::string& path);

/// Text of numbers in columns.
bool isCsv(const std::string& head);
/// Numbers between commas, semicolons or tabs, with or without a header. Columns called "x.0",
/// "x.1", ... are one array "x" [N,columns] in the order of their numbers, wherever they stand;
/// "x.0.0", "x.0.1", ... one of [N,rows,columns], and so on; beside them every other column is an
/// array of its own. Without such names the column "y", else the last one, is the array "y", and
/// the others are "x". "y" alone is [N] of i64 if all its numbers are integers, else [N,1];
/// floating arrays are f64. Throws Refused (error) naming line and column, and for names or numbers
/// that are there twice, and numbers that are missing.
std::vector<NamedArray> readCsv(const std::string& path);

}  // namespace chorus
