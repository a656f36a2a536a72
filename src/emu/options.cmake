# A precompiled header holds for the flags that it was made with: none of these files can use it.
#
# The interpreter's handlers are compiled once for each instruction set; handlers.cc picks at run time.
# Contraction is off: whether a multiplication and an addition fuse is the PTX's business. Bits of
# slots are read as several types.
set(CUPEL_EMU_HANDLER_FLAGS
  -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -mno-vzeroupper)
# Builds with sanitizers take the plain ones alone, quickly compiled: it is the same text, and gathers are not
# looked at.
set(plain_level -O2)
if(CUPEL_SANITIZE)
  set(plain_level -O1)
endif()
foreach(variant IN ITEMS
    "plain|${plain_level}|-fno-tree-vectorize"
    "avx2|-mavx2|-mfma|-mbmi|-mbmi2|-mlzcnt|-mpopcnt"
    "avx512|-mavx512f|-mavx512bw|-mavx512dq|-mavx512vl|-mavx512cd|-mfma|-mbmi|-mbmi2|-mlzcnt|-mpopcnt|-mprefer-vector-width=512|-Wno-maybe-uninitialized|-Wno-uninitialized")
  string(REPLACE "|" ";" parts "${variant}")
  list(POP_FRONT parts name)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/handlers_${name}.cc PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${CUPEL_EMU_HANDLER_FLAGS};${parts}")
endforeach()
if(CUPEL_SANITIZE)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/handlers_avx2.cc
    ${CMAKE_CURRENT_LIST_DIR}/handlers_avx512.cc PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/handlers.cc PROPERTIES
    COMPILE_DEFINITIONS CUPEL_PLAIN_HANDLERS)
endif()
set_source_files_properties(
  ${CMAKE_CURRENT_LIST_DIR}/ops_atomic.cc ${CMAKE_CURRENT_LIST_DIR}/ops_rare.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "-ffp-contract=off;-fno-strict-aliasing")
# The arithmetic of shadows runs over 32 lanes of doubles; traps and errno would keep it scalar.
foreach(name shadow_float shadow_registers shadow_access shadow_move shadow_control)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/${name}.cc PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;-fno-strict-aliasing;-ffp-contract=off")
endforeach()
