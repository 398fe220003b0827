#pragma once

namespace chorus {

/// Keeps freed memory in the process for the next step, for the whole run.
///
/// A training step allocates the same sizes again and again, and the stacked tensors of K members
/// are K times as large as one member's: above the C library's threshold every one is mapped,
/// zeroed page by page and unmapped again, which costs a tenth to a third of a step. Call once,
/// before the first tensor is made. Does nothing where the C library has no such setting.
void keepFreedMemory();

/// Gives what has been freed in small blocks back to the system, where the C library can.
void returnFreedMemory();

}  // namespace chorus
