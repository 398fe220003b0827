// The table of contents: which passes run, and in which order.
#include "chorus/pass.h"

namespace chorus {

const std::vector<std::string>& canonicalPipeline() {
  static const std::vector<std::string> passes = {
      "normalize-aliases",  // one name per op: conv2d, _convolution, ... -> convolution
      "split-recurrent",    // dropout between the layers of an LSTM, GRU, RNN is a dropout
      "split-attention",    // dropout inside attention is a dropout
      "pool-constants",     // equal constants are one node, all at the top
      "dead-code",          // what no output needs
      "canonical-order",    // depth first from the outputs
  };
  return passes;
}

const std::vector<std::string>& fusedPipeline() {
  static const std::vector<std::string> passes = {
      "layout",          // K first or channel-merged, per value
      "lower-layout",    // the conversions that remain, as aten ops
      "channels-last",   // the format in which grouped convolutions are fast
      "pool-constants",  // rules insert constants where they need them
      "dead-code",
      "erase-shapes",  // sizes were the example's
  };
  return passes;
}

}  // namespace chorus
