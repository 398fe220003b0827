#include "lib/batching/families.h"

namespace chorus {
namespace {

/// view_as_complex(x): real and imaginary parts have to lie side by side.
RuleResult viewAsComplex(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.emit("aten::contiguous", {context.stacked(0)});
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows special() {
  const BatchingRule one = static_cast<RuleResult (*)(RuleContext&)>(elementwise);
  const BatchingRule several = static_cast<RuleResult (*)(RuleContext&)>(broadcasting);
  return concatenated({
      rowsOf("elementwise", one,
             {"special_i1e",
              "special_ndtri",
              "special_erfcx",
              "special_airy_ai",
              "special_bessel_j0",
              "special_bessel_j1",
              "special_bessel_y0",
              "special_bessel_y1",
              "special_modified_bessel_i0",
              "special_modified_bessel_i1",
              "special_modified_bessel_k0",
              "special_modified_bessel_k1",
              "special_scaled_modified_bessel_k0",
              "special_scaled_modified_bessel_k1",
              "special_spherical_bessel_j0",
              "special_exp2",
              "special_sinc",
              "special_round",
              "special_logit",
              "special_digamma",
              "special_psi",
              "special_gammaln",
              "special_i0",
              "special_erfinv",
              "special_polygamma",
              "special_multigammaln",
              "polygamma",
              "mvlgamma"}),
      // The last dim of a real view, if any, stays the last.
      rowsOf("elementwise", one,
             {"conj", "_conj", "conj_physical", "_conj_physical", "resolve_conj", "resolve_neg",
              "_neg_view", "real", "imag", "angle", "view_as_real", "view_as_real_copy", "frexp"}),
      rowsOf("elementwise", viewAsComplex, {"view_as_complex", "view_as_complex_copy"}),
      rowsOf("broadcasting", several,
             {"special_zeta",
              "special_gammainc",
              "special_gammaincc",
              "special_chebyshev_polynomial_t",
              "special_chebyshev_polynomial_u",
              "special_chebyshev_polynomial_v",
              "special_chebyshev_polynomial_w",
              "special_shifted_chebyshev_polynomial_t",
              "special_shifted_chebyshev_polynomial_u",
              "special_shifted_chebyshev_polynomial_v",
              "special_shifted_chebyshev_polynomial_w",
              "special_hermite_polynomial_h",
              "special_hermite_polynomial_he",
              "special_laguerre_polynomial_l",
              "special_legendre_polynomial_p",
              "igamma",
              "igammac",
              "complex",
              "polar",
              "native_dropout_backward"}),
  });
}

}  // namespace chorus
