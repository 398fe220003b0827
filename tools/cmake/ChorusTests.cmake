# Registering tests: every test is an entry of ctest with the label `quick` or `slow`.

# The environment of every test: one thread each, since ctest itself runs several at a time.
set(CHORUS_TEST_ENVIRONMENT
    CHORUS_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} CHORUS_BUILD=${CMAKE_BINARY_DIR} CHORUS_SOURCE=${CMAKE_SOURCE_DIR}
    PYTHONPATH=${CMAKE_SOURCE_DIR}/tools/python:${CMAKE_BINARY_DIR}/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1)
if(CHORUS_SANITIZE)
  list(APPEND CHORUS_TEST_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)  # LibTorch keeps its registries for ever
endif()

# chorus_test(name LABEL quick|slow TIMEOUT seconds COMMAND words...)
function(chorus_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
                       ENVIRONMENT "${CHORUS_TEST_ENVIRONMENT}")
endfunction()

# chorus_discover(target STYLE gtest|cases PREFIX text TIMEOUT seconds): after each build the program is asked for its
# tests. gtest: one entry per suite. cases: `--list` prints one name a line, `--run NAME` runs it; a second
# word `slow` in a line labels it so. A program that was not built is a failing test.
function(chorus_discover target)
  cmake_parse_arguments(ARG "" "STYLE;PREFIX;TIMEOUT" "" ${ARGN})
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.cmake)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM COMMENT "" BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DSTYLE=${ARG_STYLE} -DPREFIX=${ARG_PREFIX}
            -DTIMEOUT=${ARG_TIMEOUT} -DOUT=${list} "-DENVIRONMENT=${CHORUS_TEST_ENVIRONMENT}"
            -P ${CMAKE_SOURCE_DIR}/tools/cmake/discover_tests.cmake)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake @ONLY CONTENT
"if(EXISTS \"@list@\")
  include(\"@list@\")
else()
  add_test(@ARG_PREFIX@.not_built false)
  set_tests_properties(@ARG_PREFIX@.not_built PROPERTIES LABELS quick)
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
endfunction()
