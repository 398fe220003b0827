#include "runtime/allocator.h"

#include <climits>  // also tells which C library this is

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace chorus {

void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);  // all blocks from the heap
  mallopt(M_TRIM_THRESHOLD,
          INT_MAX);  // which gives nothing back below 2 GB of free room at its top
  mallopt(M_TOP_PAD, 64 * 1024 * 1024);  // and grows in few steps
#endif
}

void returnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace chorus
