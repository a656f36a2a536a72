# Build rules shared by every folder of src/.
# cupel_library(NAME [JSON] [HOT] [DEPS folder...] [LINK target...]) makes the static library cupel_NAME from
# NAME/*.cc and, from NAME/*_test.cc, the test program NAME_test. JSON: most of its files speak it. HOT:
# CUPEL_QUICK does not slow it down. DEPS are folders of src/ and follow the dependency table of
# docs/architecture.md, which tools/check_deps.py enforces.
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
target_compile_options(cupel_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion
  $<$<BOOL:${CUPEL_WERROR}>:-Werror>)
target_link_options(cupel_options INTERFACE -static-libstdc++ -static-libgcc)
if(CUPEL_SANITIZE)
  # -O1 and line tables alone: these builds are made to be run once, and compile a third faster. The checks
  # before every access to a member double the compiler's work, and most of what they find, a null or
  # dangling pointer, the address sanitizer finds too.
  target_compile_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE} -fno-omit-frame-pointer -O1 -g1
    -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow)
  target_link_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE})
endif()
target_link_libraries(cupel_options INTERFACE Threads::Threads)

if(CUPEL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# Reading the headers of libraries is most of the compiler's work, so they are read once for many files:
# with JSON (three seconds a file) for the folders that speak it, without for the others, and both again
# for tests. tools/lint reads every file without this, so that a file still includes what it uses.
option(CUPEL_PCH "Precompile the headers of libraries" ON)
set(cupel_pch_headers <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional>
  <map> <memory> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>
  <fmt/format.h> <fmt/ranges.h>)
# cupel_precompiled(NAME POSITION [LINK target...] HEADERS header...) makes what REUSE_FROM names.
# POSITION is -fPIC for libraries, -fPIE for programs, as CMake compiles them: it must be the same.
function(cupel_precompiled name position)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// Compiled for its precompiled header.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE ${position})
  target_link_libraries(${name} PRIVATE cupel_options ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS} ${cupel_pch_headers})
endfunction()
if(CUPEL_PCH)
  # GCC 12 takes what a precompiled <string> does where texts are joined for overruns (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(cupel_options INTERFACE
      -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  cupel_precompiled(cupel_pch -fPIC)
  cupel_precompiled(cupel_pch_json -fPIC HEADERS <nlohmann/json.hpp>)
  if(CUPEL_QUICK)
    cupel_precompiled(cupel_pch_hot -fPIC)
    target_compile_options(cupel_pch_hot PRIVATE -O2)  # it holds for one level alone
  endif()
  if(CUPEL_TESTS)
    set(gtest LINK GTest::gtest GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
    cupel_precompiled(cupel_pch_test -fPIE ${gtest})
    cupel_precompiled(cupel_pch_json_test -fPIE ${gtest} <nlohmann/json.hpp>)
  endif()
endif()

# Several files of a folder in one run of the compiler, which then instantiates templates once for all of them:
# a build from nothing takes less than half of its time (ADR 0013). So that any of them can meet, names in unnamed
# namespaces differ within a folder; with -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 all of them do meet.
option(CUPEL_UNITY "Compile the files of a folder together" OFF)
# cupel_unity(TARGET)
function(cupel_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CUPEL_UNITY})
  if(CUPEL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # it takes the files for headers
  endif()
endfunction()

function(cupel_library name)
  cmake_parse_arguments(ARG "JSON;HOT" "TEST_MAIN" "DEPS;LINK" ${ARGN})
  set(pch cupel_pch)
  if(ARG_JSON)
    set(pch cupel_pch_json)
  endif()
  set(test_pch ${pch}_test)
  if(ARG_HOT AND CUPEL_QUICK)
    set(pch cupel_pch_hot)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_test_main|/main)\\.cc$")
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
  endif()
  if(ARG_HOT AND CUPEL_QUICK)
    target_compile_options(cupel_${name} PRIVATE -O2)
  endif()
  target_link_libraries(cupel_${name} ${scope} cupel_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(cupel_${name} ${scope} cupel_${dep})
  endforeach()
  target_link_libraries(cupel_${name} ${scope} ${ARG_LINK})
  if(CUPEL_TESTS AND tests)
    add_executable(${name}_test ${tests} ${ARG_TEST_MAIN})
    cupel_unity(${name}_test)
    target_link_libraries(${name}_test PRIVATE cupel_${name} GTest::gtest GTest::gmock)
    if(NOT ARG_TEST_MAIN)
      target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
    endif()
    if(CUPEL_PCH)
      target_precompile_headers(${name}_test REUSE_FROM ${test_pch})
    endif()
    target_compile_definitions(${name}_test PRIVATE CUPEL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}/
      PROPERTIES TIMEOUT 120)
  endif()
endfunction()
