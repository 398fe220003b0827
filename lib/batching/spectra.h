// Short-time spectra with a window of each member's own.
#pragma once

#include "chorus/batching_rule.h"

namespace chorus {

/// aten::stft or, `inverse`, aten::istft whose window is stacked: frames, times the window, and
/// their transforms. Declines where an argument but the signal and the window is computed.
RuleResult windowed(RuleContext& context, bool inverse);

}  // namespace chorus
