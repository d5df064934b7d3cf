# How every library, program and test of the project is declared.
#   mt_library(NAME SOURCES a.cc ... [ALONE b.cc ...] [DEPS target ...] [PRIVATE_DEPS target ...] [TORCH])
#   mt_program(NAME SOURCES a.cc ... [DEPS target ...] [TORCH] [DESTINATION dir] [COMPONENT package])
#   mt_trainers(PROGRAM FOLDER SCRIPT NAMES...)
#   mt_test(NAME [SOURCES a.cc ...] [DEPS target ...] [PROGRAMS program ...] [TORCH] [GPU] [SERIAL] [SANITIZED] [THOROUGH]
#     [LABELS l ...] [LONG filter] [TIMEOUT s])
# TORCH marks targets that include LibTorch's headers: they get the shared precompiled header and LibTorch first on
# their link line.
# ALONE: sources that cannot be compiled in a bundle with others.
# PRIVATE_DEPS are used in .cc files only: their include folders and definitions do not reach the library's users.
# GPU: the test sees this machine's GPUs; other tests see none, so that they behave the same everywhere.
# PROGRAMS: programs that the test starts. SANITIZED: tools/test runs it only in preset dev, like all unit tests without
# TORCH except THOROUGH ones, which do more if no sanitizer slows them down. A test is NAME.cc unless SOURCES is given.
# Each case becomes a ctest test; cases that match LONG (as in --gtest_filter) also get the label long. A test without
# GPU, SERIAL, LABELS, LONG and TIMEOUT is a unit test: besides its cases (label case) ctest has its binary as one test
# (label unit), which tools/test runs instead, because each start costs 0.3 s with LibTorch. It lists its cases in
# test-results/NAME.xml.
include(GNUInstallDirs)
if(BUILD_TESTING)
  include(GoogleTest)
endif()
add_custom_target(mt_programs)  # all that `cmake --install` installs

# Another compiler's warnings must not break a user's build: they are errors only in CI and the development presets.
set(in_ci OFF)
if(DEFINED ENV{CI} AND NOT "$ENV{CI}" STREQUAL "false" AND NOT MT_FUZZ)  # Clang warns of other things
  set(in_ci ON)
endif()
option(MT_WERROR "Warnings are errors" ${in_ci})

add_library(mt_warnings INTERFACE)
# For bundles only: GCC mistakes a neighbour's names for globals and its unnamed namespace for a header's. tools/check
# --lint has Clang check each file for shadowed names.
target_compile_options(mt_warnings INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Wsuggest-override
  $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local -Wno-subobject-linkage>
  -pthread  # everywhere, so that all targets can share a precompiled header
  $<$<BOOL:${MT_WERROR}>:-Werror>)
target_include_directories(mt_warnings INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  # -O1 keeps sanitizers usable on two cores and frames readable.
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
endif()
# MT_CHECK is active in every build, so nothing depends on NDEBUG.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

if(MT_SANITIZE)
  add_compile_options(-fsanitize=${MT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MT_SANITIZE})
  if(MT_SANITIZE MATCHES "address" AND MT_SANITIZE MATCHES "undefined")
    # AddressSanitizer covers null and object-size, and most of vptr, which also needs a free descriptor; they are an
    # eighth of the code. In tests, alignment costs as much again and finds no errors of ours.
    add_compile_options(-fno-sanitize=null,object-size,vptr)
    set(test_options -fno-sanitize=alignment)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's manual of -fsanitize warns of false alarms: inserted checks mislead warnings that follow values through
    # optimised code. The release preset has them all enabled.
    target_compile_options(mt_warnings INTERFACE -Wno-array-bounds -Wno-dangling-pointer -Wno-free-nonheap-object
      -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-use-after-free)
  endif()
endif()
if(MT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage feedback everywhere
endif()

# The standard library's and abseil's headers are a third of a file's compile time: one precompiled copy serves all.
set(plain_headers <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional> <string> <variant> <vector>
  <absl/status/statusor.h> <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h>)
function(mt_use_plain_pch target)
  if(MT_FUZZ)
    return()  # Clang wants the very same flags
  endif()
  if(NOT TARGET mt_plain_pch)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/plain_pch.cc CONTENT "// Only carries the precompiled header.\n")
    add_library(mt_plain_pch STATIC ${CMAKE_BINARY_DIR}/plain_pch.cc)
    target_link_libraries(mt_plain_pch PRIVATE mt_warnings absl::statusor absl::str_format)
    target_precompile_headers(mt_plain_pch PRIVATE ${plain_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM mt_plain_pch)
endfunction()

# Three quarters of a file's compile time are templates that its neighbours also instantiate, so a target's files are
# compiled in bundles. Names private to a file must therefore be unique within a target (tools/check_bundles).
option(MT_BUNDLES "Compile files of a target together; OFF: each alone" ON)
option(MT_DEV_TESTS "Build the tests that tools/test runs in preset dev alone" ON)
option(MT_LONG_TESTS "Build the tests that tools/test --full alone runs" ON)
# Sets OUT to a target's sources: its files, or bundles that include several by paths relative to the root. UNITY_BUILD
# uses absolute paths before CMake 4.0 (UNITY_BUILD_RELOCATABLE), so ccache misses them in another checkout
# (base_dir = ..., hash_dir = false).
function(mt_bundle out target torch)
  set(together ${ARGN})
  list(LENGTH together all)
  if(NOT MT_BUNDLES OR all EQUAL 1)
    set(${out} ${together} PARENT_SCOPE)
    return()
  endif()
  set(most 16)
  if(torch)
    set(most 8)  # the most that still compile while somebody waits
  endif()
  set(compiled)
  set(number 0)
  while(together)
    list(LENGTH together left)
    list(SUBLIST together 0 ${most} files)
    if(left GREATER most)
      list(SUBLIST together ${most} -1 together)
    else()
      set(together)
    endif()
    set(text)
    foreach(file ${files})
      file(REAL_PATH ${file} path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(bundle ${CMAKE_CURRENT_BINARY_DIR}/${target}_bundle_${number}.cc)
    file(CONFIGURE OUTPUT ${bundle} CONTENT "${text}" @ONLY)
    list(APPEND compiled ${bundle})
    math(EXPR number "${number} + 1")
  endwhile()
  set(${out} ${compiled} PARENT_SCOPE)
endfunction()

function(mt_library name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;ALONE;DEPS;PRIVATE_DEPS" ${ARGN})
  mt_bundle(bundles ${name} "${arg_TORCH}" ${arg_SOURCES})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${bundles} ${arg_ALONE})
  target_link_libraries(${name} PRIVATE mt_warnings ${arg_PRIVATE_DEPS} PUBLIC ${arg_DEPS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(arg_TORCH)
    target_link_libraries(${name} PUBLIC mt_torch)
    mt_use_torch_pch(${name})
  else()
    mt_use_plain_pch(${name})
  endif()
endfunction()

function(mt_program name)
  cmake_parse_arguments(arg "TORCH" "DESTINATION;COMPONENT" "SOURCES;DEPS" ${ARGN})
  if(NOT arg_DESTINATION)
    set(arg_DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  if(NOT arg_COMPONENT)
    set(arg_COMPONENT trainers)
  endif()
  add_executable(${name} ${arg_SOURCES})
  if(MT_STATIC)
    target_link_options(${name} PRIVATE -Wl,--gc-sections)
    # Packed relocations save a megabyte per program but need glibc 2.36, as packages do anyway. Machines with GPUs, for
    # which tools/gpu/bundle packs these programs too, can be older.
    if(NOT MT_CUDA)
      target_link_options(${name} PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
    if(NOT arg_TORCH)
      target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)  # LibTorch throws: trainers share its own
    endif()
  endif()
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE mt_torch)  # first: see LibTorch.cmake
    set_target_properties(${name} PROPERTIES BUILD_RPATH ${MT_TORCH_RPATH})
    mt_use_torch_pch(${name})
  else()
    mt_use_plain_pch(${name})
  endif()
  target_link_libraries(${name} PRIVATE mt_warnings mt_commit ${arg_DEPS})
  add_dependencies(mt_programs ${name})
  install(TARGETS ${name} DESTINATION ${arg_DESTINATION} COMPONENT ${arg_COMPONENT})
endfunction()

# Makes each of NAMES a program: in the build's bin, and as a target, a link to the program `target`; installed in
# <folder>/trainers, a script that finds LibTorch and starts the one in `folder` by that name, so a copied tree works,
# and in bin a link to it.
function(mt_trainers target folder script)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/bin)
  foreach(name ${ARGN})
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ../${folder}/${target} ${CMAKE_BINARY_DIR}/bin/${name})
    add_custom_target(${name} DEPENDS ${target})
    install(PROGRAMS ${script} DESTINATION ${folder}/trainers RENAME ${name} COMPONENT trainers)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/installed_links)
    file(CREATE_LINK ../${folder}/trainers/${name} ${CMAKE_BINARY_DIR}/installed_links/${name} SYMBOLIC)
    install(FILES ${CMAKE_BINARY_DIR}/installed_links/${name} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT trainers)
  endforeach()
endfunction()

# Half of a test's compile time is optimising assertions and a third gtest's headers, so tests use -O0 and share a
# precompiled header. The code under test and support libraries keep the preset's flags.
function(mt_test_pch name)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// Only carries the precompiled header.\n")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE mt_warnings ${ARGN} GTest::gmock)
  target_compile_options(${name} PRIVATE -O0 ${test_options})
  target_precompile_headers(${name} PRIVATE ${plain_headers} <gmock/gmock.h> <gtest/gtest.h>)
endfunction()

function(mt_test name)
  cmake_parse_arguments(arg "TORCH;GPU;SERIAL;SANITIZED;THOROUGH" "TIMEOUT;LONG" "SOURCES;DEPS;PROGRAMS;LABELS" ${ARGN})
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}.cc)
  endif()
  set(unit TRUE)
  if(arg_GPU OR arg_SERIAL OR arg_LABELS OR arg_LONG OR arg_TIMEOUT)
    set(unit FALSE)
  endif()
  set(dev_alone FALSE)
  if((unit OR arg_SANITIZED) AND NOT arg_TORCH AND NOT arg_THOROUGH)
    set(dev_alone TRUE)
  endif()
  if((dev_alone AND NOT MT_DEV_TESTS) OR (NOT MT_LONG_TESTS AND "long" IN_LIST arg_LABELS))
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  mt_bundle(bundles ${name} "${arg_TORCH}" ${arg_SOURCES})
  add_executable(${name} ${bundles})
  if(arg_PROGRAMS)
    add_dependencies(${name} ${arg_PROGRAMS})
  endif()
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE mt_torch)
    set_target_properties(${name} PROPERTIES BUILD_RPATH ${MT_TORCH_RPATH})
    target_precompile_headers(${name} REUSE_FROM mt_torch_test_pch)
  else()
    target_precompile_headers(${name} REUSE_FROM mt_plain_test_pch)
  endif()
  target_compile_options(${name} PRIVATE -O0 ${test_options})
  target_link_libraries(${name} PRIVATE mt_warnings ${arg_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(unit)
    set(arg_LABELS case)
  endif()
  if(arg_LABELS)
    # One word, because gtest_discover_tests keeps only the first entry of a list. `ctest -L` matches parts of it.
    string(REPLACE ";" "-" label "${arg_LABELS}")
    list(APPEND properties LABELS "${label}")
  endif()
  # gtest_discover_tests keeps only the first entry of an ENVIRONMENT list (CMake 3.25), so the emulator, a command in
  # front of the test's own, sets the variables.
  set(devices "")
  if(NOT arg_GPU)
    set(devices "CUDA_VISIBLE_DEVICES=;")
  endif()
  set_target_properties(${name} PROPERTIES CROSSCOMPILING_EMULATOR
    "env;${devices}TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1:die_after_fork=0:ignore_noninstrumented_modules=1;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp;XDG_STATE_HOME=${CMAKE_BINARY_DIR}/state;MT_BIN=${CMAKE_BINARY_DIR}/bin;MT_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
  if(unit)
    set(whole 600)
    if(MT_SANITIZE MATCHES thread)
      set(whole 1800)  # ten times slower
    endif()
    add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${whole} LABELS unit)
  endif()
  if(arg_LONG)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_FILTER "${arg_LONG}"
      TEST_LIST ${name}_long PROPERTIES ${properties} LABELS "${label}-long")
    set(but TEST_FILTER "-${arg_LONG}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 ${but} PROPERTIES ${properties})
endfunction()
