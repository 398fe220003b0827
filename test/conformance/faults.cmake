# Each fault of lib/batching turns the conformance entry of an op red: "fault op".
foreach(pair
        "merge_k_innermost convolution"
        "statistics_swapped _native_batch_norm_legit_functional"
        "weight_not_transposed linear"
        "dim_off_by_one softmax"
        "member_zero_for_all median"
        "loss_reduces_over_members mse_loss"
        "reshape_swallows_k view"
        "broadcast_misaligned add"
        "scalar_promotes add"
        "embedding_without_offset embedding"
        "reduces_over_members mean"
        "recurrent_weights_swapped gru")
  separate_arguments(words UNIX_COMMAND "${pair}")
  list(GET words 0 fault)
  list(GET words 1 op)
  chorus_test(fault.${fault} LABEL quick TIMEOUT 300
              COMMAND ${CMAKE_COMMAND} -E env CHORUS_FAULT=${fault} $<TARGET_FILE:chorus_conformance> --red ${op})
endforeach()
