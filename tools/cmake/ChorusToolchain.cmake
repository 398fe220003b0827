# Compiler settings that every target of ours shares: target chorus_options.
add_library(chorus_options INTERFACE)
target_compile_options(chorus_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These are raised by the optimiser inside std::string of g++ 12 and 13, for correct code.
  target_compile_options(chorus_options INTERFACE -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CHORUS_SANITIZE)
  # Not vptr: it needs type information that LibTorch does not export.
  target_compile_options(chorus_options INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr
                         -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(chorus_options INTERFACE -fsanitize=address,undefined)
endif()
target_compile_definitions(chorus_options INTERFACE CHORUS_VERSION="${PROJECT_VERSION}")

find_program(CHORUS_CCACHE ccache)
if(CHORUS_CCACHE)
  # A precompiled header defeats ccache unless it is told to trust the compiler about it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CHORUS_CCACHE})
  target_compile_options(chorus_options INTERFACE -fpch-preprocess)
endif()
