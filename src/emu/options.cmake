# The interpreter's handlers are compiled once for each instruction set; handlers.cc picks at run time.
# Contraction is off: whether a multiplication and an addition fuse is the PTX's business. Bits of
# slots are read as several types.
set(CUPEL_EMU_HANDLER_FLAGS
  -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -mno-vzeroupper)
foreach(variant IN ITEMS
    "plain|-O2|-fno-tree-vectorize"
    "avx2|-mavx2|-mfma|-mbmi|-mbmi2|-mlzcnt|-mpopcnt"
    "avx512|-mavx512f|-mavx512bw|-mavx512dq|-mavx512vl|-mavx512cd|-mfma|-mbmi|-mbmi2|-mlzcnt|-mpopcnt|-mprefer-vector-width=512|-Wno-maybe-uninitialized|-Wno-uninitialized")
  string(REPLACE "|" ";" parts "${variant}")
  list(POP_FRONT parts name)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/handlers_${name}.cc PROPERTIES
    COMPILE_OPTIONS "${CUPEL_EMU_HANDLER_FLAGS};${parts}")
endforeach()
set_source_files_properties(
  ${CMAKE_CURRENT_LIST_DIR}/ops_atomic.cc ${CMAKE_CURRENT_LIST_DIR}/ops_rare.cc PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off;-fno-strict-aliasing")
