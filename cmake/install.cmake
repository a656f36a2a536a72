# What an installation contains, below PREFIX/cupel: bin/cupel, and its data in share/cupel with the layout of
# this repository (os::DataDir). The wheel is made of it (pyproject.toml); `cmake --install build --component cupel`
# makes the same folder without Python.
# CUPEL_PREBUILT names a program that is built already; then nothing is compiled.
if(CUPEL_PREBUILT)
  install(PROGRAMS ${CUPEL_PREBUILT} DESTINATION cupel/bin COMPONENT cupel)
  cmake_path(REPLACE_FILENAME CUPEL_PREBUILT libcupel_gpu_worker.so OUTPUT_VARIABLE worker)
  install(PROGRAMS ${worker} DESTINATION cupel/bin COMPONENT cupel)
else()
  install(TARGETS cupel RUNTIME DESTINATION cupel/bin COMPONENT cupel)
  install(TARGETS cupel_gpu_worker LIBRARY DESTINATION cupel/bin COMPONENT cupel)
endif()
# tests: the kernels that `cupel selftest` judges.
install(DIRECTORY shim tasks share DESTINATION cupel/share/cupel COMPONENT cupel
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY tests/mustfail tests/mustpass DESTINATION cupel/share/cupel/tests COMPONENT cupel
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY src/oracle src/trace src/report DESTINATION cupel/share/cupel/src COMPONENT cupel
  FILES_MATCHING PATTERN "*.py" PATTERN testdata EXCLUDE PATTERN page EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION cupel/share/cupel COMPONENT cupel)
