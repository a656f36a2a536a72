# Compiler options of single files. A precompiled header serves one set of options only, so these files do not
# use it, and CMake compiles them by themselves.
#
# The interpreter's handlers are compiled once for each instruction set, and handlers.cc chooses at run time.
# Contraction is off because the PTX decides whether a multiplication and an addition fuse.
set(fast -O3)
set(plain -O1)
if(CUPEL_SANITIZE)
  set(fast -O0)
  set(plain -O0)
endif()
set(handler_options ${fast} -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -mno-vzeroupper)
# Processors without AVX2 are older than ten years, so the plain handlers only have to be correct.
cupel_file_options(${CMAKE_CURRENT_LIST_DIR}/ops/handlers_plain.cc ${handler_options} ${plain})
if(CUPEL_SANITIZE)
  # The same source as the plain handlers, and sanitizers do not check gathers.
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/ops/handlers_avx2.cc
    ${CMAKE_CURRENT_LIST_DIR}/ops/handlers_avx512.cc PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/ops/handlers.cc PROPERTIES
    COMPILE_DEFINITIONS CUPEL_PLAIN_HANDLERS)
else()
  set(avx2 -mavx2 -mfma -mbmi -mbmi2 -mlzcnt -mpopcnt)
  cupel_file_options(${CMAKE_CURRENT_LIST_DIR}/ops/handlers_avx2.cc ${handler_options} ${avx2})
  cupel_file_options(${CMAKE_CURRENT_LIST_DIR}/ops/handlers_avx512.cc ${handler_options} ${avx2}
    -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512
    -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
foreach(name ops/atomic ops/rare)
  cupel_file_options(${CMAKE_CURRENT_LIST_DIR}/${name}.cc ${cupel_hot} -ffp-contract=off)
endforeach()
# The arithmetic of shadows runs over 32 lanes of doubles; traps and errno would keep it scalar.
foreach(name shadow/float shadow/registers shadow/move shadow/control)
  cupel_file_options(${CMAKE_CURRENT_LIST_DIR}/${name}.cc
    ${fast} -fno-math-errno -fno-trapping-math -fno-strict-aliasing -ffp-contract=off)
endforeach()
