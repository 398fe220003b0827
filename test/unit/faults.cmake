# Each fault of lib/export turns a named test of chorus_unit red: "fault suite.test".
foreach(pair
        "mean_over_k Module.GradientsAreThoseOfTheSumOfTheLosses"
        "swap_members Module.TrainStepEqualsTrainingEachMemberAlone"
        "stats_unmoved Module.BuffersMoveInTrainModeOnly"
        "moments_ignore_active Module.InactiveMembersKeepEveryByte"
        "varying_of_member_zero Varying.MembersMoveByTheirOwnRates"
        "lr_of_member_zero Optimizer.TwoStepsOfAdamW")
  separate_arguments(words UNIX_COMMAND "${pair}")
  list(GET words 0 fault)
  list(GET words 1 test)
  chorus_test(fault.${fault} LABEL quick TIMEOUT 300
              COMMAND ${CMAKE_COMMAND} -E env CHORUS_FAULT=${fault} $<TARGET_FILE:chorus_unit> --gtest_filter=${test})
  set_tests_properties(fault.${fault} PROPERTIES PASS_REGULAR_EXPRESSION "\\[  FAILED  \\] ${test}")
endforeach()
