"""Entries that are not batched, and why: (status, reason). One that is better than its line fails the full run.

"per member" is said of an entry if one of its samples needs a loop over K; most others of it are batched.
"""

_VALUES = "how large the result is, or which part is taken, depends on values"
_MEMORY = "depends on how the tensor lies in memory"
_COUNTS = "counts of values have no operator with a batch dim"
_INTERNAL = "an internal of PyTorch that no network calls"


def _each(status, reason, *names):
    return {name: (status, reason) for name in names}


OPS = {
    **_each("refused", _MEMORY, "as_strided", "as_strided.partial_views", "as_strided_copy", "as_strided_scatter"),
    **_each("refused", _VALUES, "__getitem__", "argwhere", "bincount", "masked_select", "nonzero", "narrow", "nn.functional.one_hot", "repeat_interleave",
            "tensor_split", "unique", "unique_consecutive"),
    **_each("refused", "writes its arguments; networks use batch_norm", "_batch_norm_with_update", "_native_batch_norm_legit"),
    **_each("per member", _VALUES, "nonzero_static"),
    **_each("per member", _COUNTS, "histc", "histogram", "histogramdd"),
    **_each("per member", _INTERNAL, "_chunk_cat", "_segment_reduce.lengths", "_segment_reduce.offsets",
            "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "hash_tensor", "native_layer_norm", "native_batch_norm", "new_empty_strided"),
    **_each("per member", "the gradient over all elements splits ties, that along one dim does not", "median", "nanmedian"),
    **_each("per member", "with a q, or a weight of each member's own", "quantile", "nanquantile",
            "nn.functional.multi_margin_loss"),
    **_each("per member", "ends of each member's own", "linspace.tensor_overload", "logspace.tensor_overload"),
    **_each("per member", "results that are empty, whatever K is", "linalg.lstsq", "linalg.lstsq.grad_oriented"),
    **_each("per member", "a dim that the sizes choose, while one of them follows the batch size", "cross"),
    **_each("per member", "tensors of different ranks", "cat", "gather", "masked_scatter"),
    **_each("per member", "tensors without dims", "index_fill", "nn.functional.cosine_similarity", "linalg.vander",
            "unfold", "unfold_copy"),
    "nn.functional.batch_norm": ("refused", "a vector of no rows"),
    **_each("per member", "an empty list of dims", "all", "any"),
    "linalg.tensorsolve": ("per member", "with dims"),
    "nn.functional.embedding": ("per member", "a shared table, and scale_grad_by_freq"),
    "nn.functional.embedding_bag": ("per member", "scale_grad_by_freq, which PyTorch computes by place"),
    "nn.functional.multilabel_margin_loss": ("per member", "tensors without dims"),
    "nn.functional.scaled_dot_product_attention": ("per member", "dropout inside the op"),
    "searchsorted": ("per member", "a number is searched"),
}
MODULES = {}
