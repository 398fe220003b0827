// Threads that wait for work sleep instead of spinning.
#pragma once

namespace chorus {

/// Idle OpenMP threads of LibTorch spin, which stalls training on a machine that others use too:
/// with two threads on two busy cores steps of small networks took 4 to 15 times as long, and
/// sleeping costs nothing measurable. OpenMP reads OMP_WAIT_POLICY when its library is loaded, so a
/// program that links this file starts itself again with the variable set, before any library is
/// initialised. Nothing happens where the user set it (or GOMP_SPINCOUNT, KMP_BLOCKTIME, or one
/// thread).
///
/// Does nothing itself: calling it makes the linker keep the file.
void waitPatiently();

}  // namespace chorus
