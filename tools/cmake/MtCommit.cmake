# The commit in the version of programs (base/version.h). Each build checks it and recompiles one small file if it has
# changed, so that only programs are relinked.
#   mt_commit                                 an object library that every program links
# cmake -DSOURCE=... -DOUT=... -P this file writes that file
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(commit_file ${CMAKE_BINARY_DIR}/commit.cc)
  add_custom_target(mt_write_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${commit_file} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${commit_file} VERBATIM)
  add_library(mt_commit OBJECT EXCLUDE_FROM_ALL ${commit_file})
  add_dependencies(mt_commit mt_write_commit)
  target_include_directories(mt_commit PRIVATE ${CMAKE_SOURCE_DIR})
  return()
endif()

# From git, if the source is a clone of its own and not inside another project's; in an archive from the text that `git
# archive` wrote.
set(commit "")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-cdup HEAD OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND said MATCHES "^\n([0-9a-f]+)\n$")
    set(commit ${CMAKE_MATCH_1})
  endif()
endif()
if(NOT commit AND EXISTS ${SOURCE}/tools/cmake/archived_commit.txt)
  file(READ ${SOURCE}/tools/cmake/archived_commit.txt said)
  if(said MATCHES "^([0-9a-f]+)\n?$")
    set(commit ${CMAKE_MATCH_1})
  endif()
endif()
if(commit)
  string(SUBSTRING ${commit} 0 8 commit)
else()
  set(commit unknown)
endif()
set(text "#include \"base/version.h\"\n\nnamespace mtrun {\n\nconst char* Commit() { return \"${commit}\"; }\n\n}  // namespace mtrun\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
