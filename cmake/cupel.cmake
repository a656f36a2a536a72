# Build rules shared by every folder of src/.
# cupel_library(NAME [DEPS folder...] [LINK target...]) makes the static library cupel_NAME from NAME/*.cc
# and, from NAME/*_test.cc, the test program NAME_test. DEPS are folders of src/ and follow the
# dependency table of docs/architecture.md, which tools/check_deps.py enforces.
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
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
  # -O1 and line tables alone: these builds are made to be run once, and compile a third faster.
  target_compile_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  target_link_options(cupel_options INTERFACE -fsanitize=${CUPEL_SANITIZE})
endif()
target_link_libraries(cupel_options INTERFACE Threads::Threads)

if(CUPEL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

function(cupel_library name)
  cmake_parse_arguments(ARG "" "TEST_MAIN" "DEPS;LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_test_main|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    add_library(cupel_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(cupel_${name} STATIC ${sources})
    set(scope PUBLIC)
  endif()
  target_link_libraries(cupel_${name} ${scope} cupel_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(cupel_${name} ${scope} cupel_${dep})
  endforeach()
  target_link_libraries(cupel_${name} ${scope} ${ARG_LINK})
  if(CUPEL_TESTS AND tests)
    add_executable(${name}_test ${tests} ${ARG_TEST_MAIN})
    target_link_libraries(${name}_test PRIVATE cupel_${name} GTest::gtest GTest::gmock)
    if(NOT ARG_TEST_MAIN)
      target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
    endif()
    target_compile_definitions(${name}_test PRIVATE CUPEL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}/
      PROPERTIES TIMEOUT 120)
  endif()
endfunction()
