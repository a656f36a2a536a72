# Writes OUT, a source file that defines cupel::Commit(): the commit that is built, with "-dirty" where the
# tree differs from it; empty where there is no repository. Run at every build; touches OUT only when it
# changes.
cmake_policy(VERSION 3.25)
execute_process(COMMAND git describe --always --dirty --abbrev=40 --exclude=*
  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT
"#include \"base/version.h\"

namespace cupel {

const char* Commit() { return \"@commit@\"; }

}  // namespace cupel
")
