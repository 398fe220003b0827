#include "lib/support/precompiled.h"
