# chorus_registry(target FOLDER dir TYPE T HEADER h TABLE name [NAMESPACE ns] [EXCLUDE files...])
#
# The folder is the registry: each dir/<name>.cpp defines `T chorus[::ns]::<name>()`. Generates
# `const std::vector<T>& chorus::<table>()` (rows in order of file name) and adds it to the target.
function(chorus_registry target)
  cmake_parse_arguments(ARG "" "FOLDER;TYPE;HEADER;TABLE;NAMESPACE" "EXCLUDE" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${ARG_FOLDER}/*.cpp)
  set(declarations)
  set(calls)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    if(name IN_LIST ARG_EXCLUDE)
      continue()
    endif()
    string(REGEX REPLACE "_([a-z0-9])" "_\\1" function ${name})
    string(APPEND declarations "${ARG_TYPE} ${function}();\n")
    if(ARG_NAMESPACE)
      string(APPEND calls "      ${ARG_NAMESPACE}::${function}(),\n")
    else()
      string(APPEND calls "      ${function}(),\n")
    endif()
  endforeach()
  if(ARG_NAMESPACE)
    set(declarations "namespace ${ARG_NAMESPACE} {\n${declarations}}\n")
  endif()
  set(out ${CMAKE_BINARY_DIR}/registry/${ARG_TABLE}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT
"// Generated from the files of @ARG_FOLDER@.
#include <vector>
#include \"@ARG_HEADER@\"
namespace chorus {
@declarations@
const std::vector<@ARG_TYPE@>& @ARG_TABLE@() {
  static const std::vector<@ARG_TYPE@> rows = {
@calls@  };
  return rows;
}
}  // namespace chorus
")
  target_sources(${target} PRIVATE ${out})
endfunction()
