# LibTorch as the imported target torch::cpu, and CHORUS_PYTHON, which runs the Python tests.
#
# CHORUS_TORCH_DIR is the folder of a `torch` wheel or of a LibTorch archive: it has include/ and lib/; the prefix of an
# installed Torch will do as well. Without it, the torch of CHORUS_PYTHON is asked. The libraries are linked directly:
# find_package(Torch) of a CUDA wheel demands a matching CUDA toolkit even for CPU code.
set(CHORUS_TORCH_DIR "" CACHE PATH "Folder with LibTorch's include/ and lib/")
set(CHORUS_PYTHON "" CACHE FILEPATH "Python with the packages of tools/python/requirements.txt, for the tests")

if(NOT CHORUS_PYTHON)
  # .../lib/python3.11/site-packages/torch belongs to .../bin/python3
  get_filename_component(prefix "${CHORUS_TORCH_DIR}/../../../.." ABSOLUTE)
  if(CHORUS_TORCH_DIR AND EXISTS ${prefix}/bin/python3)
    set(found ${prefix}/bin/python3)
  else()
    find_package(Python3 COMPONENTS Interpreter)
    set(found ${Python3_EXECUTABLE})
  endif()
  set(CHORUS_PYTHON "${found}" CACHE FILEPATH "" FORCE)
endif()

if(NOT CHORUS_TORCH_DIR)
  execute_process(COMMAND ${CHORUS_PYTHON} -c
    "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "no LibTorch: give -DCHORUS_TORCH_DIR=<folder of the torch wheel>, or run tools/build")
  endif()
  set(CHORUS_TORCH_DIR ${found} CACHE PATH "" FORCE)
endif()
if(NOT EXISTS ${CHORUS_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "CHORUS_TORCH_DIR=${CHORUS_TORCH_DIR} has no lib/libtorch_cpu.so")
endif()

# Up to 2.8 the numbers stand in the C++ frontend's header, later in torch/headeronly.
set(lines)
foreach(header headeronly/version.h csrc/api/include/torch/version.h)
  set(header ${CHORUS_TORCH_DIR}/include/torch/${header})
  if(NOT lines AND EXISTS ${header})
    file(STRINGS ${header} lines REGEX "define TORCH_VERSION_M(AJ|IN)OR ")
  endif()
endforeach()
string(REGEX MATCHALL "[0-9]+" CHORUS_TORCH_VERSION "${lines}")
list(JOIN CHORUS_TORCH_VERSION "." CHORUS_TORCH_VERSION)
if(NOT lines OR CHORUS_TORCH_VERSION VERSION_LESS 2.8)
  message(FATAL_ERROR "LibTorch in ${CHORUS_TORCH_DIR} is '${CHORUS_TORCH_VERSION}'; chorus needs 2.8 or newer")
endif()
message(STATUS "LibTorch ${CHORUS_TORCH_VERSION} in ${CHORUS_TORCH_DIR}")
message(STATUS "Python for tests: ${CHORUS_PYTHON}")

add_library(torch::c10 SHARED IMPORTED)
set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION ${CHORUS_TORCH_DIR}/lib/libc10.so)
add_library(torch::cpu SHARED IMPORTED)
set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION ${CHORUS_TORCH_DIR}/lib/libtorch_cpu.so)
target_include_directories(torch::cpu SYSTEM INTERFACE
  ${CHORUS_TORCH_DIR}/include ${CHORUS_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(torch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
find_package(Threads REQUIRED)
target_link_libraries(torch::cpu INTERFACE torch::c10 Threads::Threads)
set(CMAKE_BUILD_RPATH ${CHORUS_TORCH_DIR}/lib)
set(CMAKE_INSTALL_RPATH ${CHORUS_TORCH_DIR}/lib)
