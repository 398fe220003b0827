// Recurrent networks of K members as TorchScript: one loop over time serves all members.
//
// Inside, every value has its rows behind its features, [K,H,N], so that the gates, which are
// chunks of dim 1, lie together in memory and no weight has to be transposed. The input projection
// of all T steps is one product. Two directions run in the same loop, as 2K members.
#pragma once

#include <string>

namespace chorus {

enum class Cell { Lstm, Gru, Tanh, Relu };

struct RecurrentForm {
  Cell cell = Cell::Lstm;
  int64_t layers = 1;
  bool bidirectional = false;
  bool biases = true;
  bool projections = false;  ///< LSTM: h = W_hr (o * tanh(c))
  bool batch_first = false;
  bool stacked_input = false;
  /// The CPU has one kernel for the whole sequence of a member (oneDNN: LSTM, fp32). It is taken
  /// for few members, where the loop's many small ops cost more than the calls.
  bool whole_kernel = false;
  bool train = false;  ///< of the op; without dropout only the whole kernel looks at it
};

/// def recurrent(x, h0, c0, params: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]
///
/// x: [T,N,I] or [N,T,I], or [K,...] where the input is stacked. h0, c0: [K,(L D),N,H] (c0: h0
/// again where the cell has none). params: as the op's, all stacked. Results: y [K,T,N,(D H)] or
/// [K,N,T,(D H)], h and c like h0, c0.
std::string recurrentText(const RecurrentForm& form);

/// def recurrent(data, batch_sizes, h0, c0, params: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]
///
/// The same for packed steps: data [S,I] or [K,S,I], y [K,S,(D H)]; batch_sizes is shared.
std::string packedRecurrentText(const RecurrentForm& form);

/// def cell(x, h, c, params: List[Tensor]) -> Tuple[Tensor, Tensor]
///
/// One step. x: [N,I] or [K,N,I]; h, c and the results: [K,N,H]. params: w_ih, w_hh, b_ih, b_hh,
/// all stacked.
std::string cellText(Cell cell, bool biases);

}  // namespace chorus
