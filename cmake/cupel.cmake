# Build rules shared by every folder of src/.
# cupel_library(NAME [HOT] [DEPS folder...] [LINK target...] [HOT_FILES file...]) makes the static library
# cupel_NAME from the files *.cc in NAME and its sub-folders and, from *_test.cc, the test program NAME_test. HOT
# folders and HOT_FILES are compiled with -O2, all others with -O1 (ADR 13). DEPS are folders of src/ and follow the
# dependency table of docs/architecture.md, which tools/check_deps.py enforces. Each test is an entry of ctest of its
# own; each of SHARED_SUITES is one entry, because its tests share a PyTorch, which takes seconds to start.
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_program(CCACHE ccache)
if(CCACHE)
  # It goes by the compiler's lists of headers, so that a miss does not preprocess first, and takes
  # precompiled headers for what they were made of.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Libraries that a plain machine may lack are linked statically (Debian ships the archives).
find_library(CUPEL_SODIUM_A NAMES libsodium.a REQUIRED)
find_library(CUPEL_SECCOMP_A NAMES libseccomp.a REQUIRED)
find_library(CUPEL_SQLITE_A NAMES libsqlite3.a REQUIRED)

add_library(cupel_options INTERFACE)
target_include_directories(cupel_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
# An enumerator in JSON is a mistake: it would become a number.
target_compile_definitions(cupel_options INTERFACE JSON_DISABLE_ENUM_SERIALIZATION=1)
target_compile_options(cupel_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion
  $<$<BOOL:${CUPEL_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # It warns about references to elements of a parameter that is itself a reference (JSON members).
    target_compile_options(cupel_options INTERFACE -Wno-dangling-reference)
  endif()
  # For the compiler's own speed: collect garbage less often, and keep no copies of inline functions for other
  # modules to replace (a tenth and up to a fifth of its time; ADR 13).
  target_compile_options(cupel_options INTERFACE -fno-semantic-interposition -fvisibility-inlines-hidden
    "SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=1000000")
endif()
target_link_options(cupel_options INTERFACE -static-libstdc++ -static-libgcc)
if(CUPEL_SANITIZE)
  # -O0 and line tables alone: these builds are made to be run once, and compile in half of the time. The checks
  # before every access to a member double the compiler's work, and most of what they find, a null or
  # dangling pointer, the address sanitizer finds too.
  target_compile_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE} -fno-omit-frame-pointer -O0 -g1
    -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow)
  target_link_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE})
endif()
target_link_libraries(cupel_options INTERFACE Threads::Threads)

if(CUPEL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# For hot folders and files: they contain the loops over elements, instructions and bytes. The emulator reads the
# bits of one slot as several types, hence no strict aliasing.
set(cupel_hot -O2 -fno-strict-aliasing)
# Tests run once, so compiling them fast matters more than how fast they are.
set(cupel_test_options -O0)
if(CUPEL_SANITIZE)
  set(cupel_hot -O0 -fno-strict-aliasing)
endif()
# cupel_file_options(FILE option...) compiles one file alone with further options. A name without a file is an
# error, so that a renamed file does not lose its options silently.
function(cupel_file_options file)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "cupel_file_options: there is no file ${file}")
  endif()
  set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${ARGN}")
endfunction()

# Parsing the headers of libraries is most of the compiler's work, so they are parsed once: at -O1, at -O2 for
# hot folders (a precompiled header serves one level only), and once for tests. tools/lint compiles every file
# without them, so every file must include what it uses.
option(CUPEL_PCH "Precompile the headers of libraries" ON)
set(cupel_pch_headers <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional>
  <map> <memory> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>
  <fmt/format.h> <fmt/ranges.h>)
# cupel_precompiled(NAME POSITION [OPTIONS option...] [LINK target...] HEADERS header...) makes the target
# that REUSE_FROM names. POSITION is -fPIC for libraries, -fPIE for programs: what CMake compiles them with.
function(cupel_precompiled name position)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK;HEADERS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// Compiled for its precompiled header.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE ${position} ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE cupel_options ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS} ${cupel_pch_headers})
endfunction()
if(CUPEL_PCH)
  # GCC 12 reports overruns in a precompiled <string> that do not exist (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(cupel_options INTERFACE
      -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  cupel_precompiled(cupel_pch -fPIC HEADERS <nlohmann/json.hpp>)
  cupel_precompiled(cupel_pch_hot -fPIC OPTIONS ${cupel_hot})
  if(CUPEL_TESTS)
    cupel_precompiled(cupel_pch_test -fPIE OPTIONS ${cupel_test_options} LINK GTest::gtest GTest::gmock
      HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
  endif()
endif()

# All files of a folder in one or two runs of the compiler, which then instantiates templates once for all of
# them. Names in unnamed namespaces must therefore differ within a folder. With CUPEL_UNITY=OFF (preset dev)
# each file is compiled by itself.
option(CUPEL_UNITY "Compile the files of a folder together" OFF)
# cupel_unity(TARGET)
function(cupel_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CUPEL_UNITY} UNITY_BUILD_BATCH_SIZE 40)
  if(CUPEL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # it takes the files for headers
  endif()
endfunction()

# CI runs a share of the tests that need PyTorch, another one with each commit (tools/run_tests); "1/3" is the second
# of three. Empty: all of them.
set(CUPEL_TEST_SHARE "" CACHE STRING "the share of the tests with PyTorch to run, as INDEX/COUNT")
if(CUPEL_TEST_SHARE MATCHES "^([0-9]+)/([0-9]+)$")
  set(cupel_share "GTEST_SHARD_INDEX=${CMAKE_MATCH_1};GTEST_TOTAL_SHARDS=${CMAKE_MATCH_2}")
endif()

function(cupel_library name)
  cmake_parse_arguments(ARG "HOT" "TEST_MAIN" "DEPS;LINK;HOT_FILES;SHARED_SUITES" ${ARGN})
  set(pch cupel_pch)
  if(ARG_HOT)
    set(pch cupel_pch_hot)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/testdata/")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_test_main|/main|_library)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    add_library(cupel_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(cupel_${name} STATIC ${sources})
    cupel_unity(cupel_${name})
    set(scope PUBLIC)
    if(CUPEL_PCH)
      target_precompile_headers(cupel_${name} REUSE_FROM ${pch})
    endif()
    if(ARG_HOT)
      target_compile_options(cupel_${name} PRIVATE ${cupel_hot})
    endif()
    foreach(file IN LISTS ARG_HOT_FILES)
      cupel_file_options(${CMAKE_CURRENT_SOURCE_DIR}/${name}/${file} ${cupel_hot})
    endforeach()
  endif()
  target_link_libraries(cupel_${name} ${scope} cupel_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(cupel_${name} ${scope} cupel_${dep})
  endforeach()
  target_link_libraries(cupel_${name} ${scope} ${ARG_LINK})
  if(CUPEL_TESTS AND tests)
    add_executable(${name}_test ${tests} ${ARG_TEST_MAIN})
    cupel_unity(${name}_test)
    target_compile_options(${name}_test PRIVATE ${cupel_test_options})
    target_link_libraries(${name}_test PRIVATE cupel_${name} GTest::gtest GTest::gmock)
    if(NOT ARG_TEST_MAIN)
      target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
    endif()
    if(CUPEL_PCH)
      target_precompile_headers(${name}_test REUSE_FROM cupel_pch_test)
    endif()
    target_compile_definitions(${name}_test PRIVATE CUPEL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    set(filter "*")
    if(ARG_SHARED_SUITES)
      list(TRANSFORM ARG_SHARED_SUITES APPEND ".*" OUTPUT_VARIABLE shared)
      list(JOIN shared ":" shared)
      set(filter "*-${shared}")
    endif()
    foreach(suite IN LISTS ARG_SHARED_SUITES)
      add_test(NAME ${name}/${suite} COMMAND ${name}_test --gtest_filter=${suite}.*)
      set_tests_properties(${name}/${suite} PROPERTIES TIMEOUT 900 COST 50
        ENVIRONMENT "CUPEL_HOME=${CMAKE_SOURCE_DIR};${cupel_share}" SKIP_REGULAR_EXPRESSION "PyTorch was not found")
    endforeach()
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}/ TEST_FILTER "${filter}"
      PROPERTIES TIMEOUT 120 ENVIRONMENT CUPEL_HOME=${CMAKE_SOURCE_DIR})
  endif()
endfunction()
