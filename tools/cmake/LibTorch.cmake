# LibTorch as our own imported targets. find_package(Torch) is not used, because on a CUDA wheel it enables the CUDA
# language and requires nvcc. MT_TORCH_DIR contains `torch/` and `nvidia/` side by side (a site-packages layout, because
# libtorch finds its CUDA runtime through its own relative RPATH).
set(default_torch_dir "$ENV{MT_TORCH_DIR}")
if(NOT default_torch_dir)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(default_torch_dir "$ENV{XDG_CACHE_HOME}/mtrun/libtorch-2.11.0")
  else()
    set(default_torch_dir "$ENV{HOME}/.cache/mtrun/libtorch-2.11.0")
  endif()
endif()
set(MT_TORCH_DIR "${default_torch_dir}" CACHE PATH "Folder that holds torch/ and nvidia/ of PyTorch 2.11")

set(torch_lib ${MT_TORCH_DIR}/torch/lib)
set(torch_include ${MT_TORCH_DIR}/torch/include)
set(cuda_dir ${MT_TORCH_DIR}/nvidia/cu13)
if(NOT EXISTS ${torch_lib}/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch is not at ${MT_TORCH_DIR} (no torch/lib/libtorch_cpu.so there).\n"
    "Run tools/setup, or give the site-packages folder of an installed PyTorch 2.11: MT_TORCH_DIR=... ")
endif()
set(MT_TORCH_VERSION 2.11 CACHE STRING "PyTorch's version at MT_TORCH_DIR: 2.11, or one to be tried")
file(STRINGS ${torch_include}/torch/headeronly/version.h torch_version REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+);.*MINOR ([0-9]+).*" "\\1.\\2" torch_version "${torch_version}")
if(NOT torch_version STREQUAL MT_TORCH_VERSION)
  message(FATAL_ERROR "${MT_TORCH_DIR} holds PyTorch ${torch_version}, not ${MT_TORCH_VERSION}")
endif()

# The full wheels include NCCL and cuDNN beside the CUDA runtime; the CPU set-up has only the runtime.
set(have_cuda OFF)
if(EXISTS ${MT_TORCH_DIR}/nvidia/nccl/include/nccl.h AND EXISTS ${cuda_dir}/include/cuda_runtime.h)
  set(have_cuda ON)
endif()
set(MT_CUDA AUTO CACHE STRING "Build with CUDA and NCCL: ON, OFF, or AUTO, where the full wheels are (tools/setup --cuda)")
if(MT_CUDA STREQUAL "AUTO")  # asked each time: the wheels may come later
  set(MT_CUDA ${have_cuda})
endif()
if(MT_CUDA AND NOT have_cuda)
  message(FATAL_ERROR "MT_CUDA=ON needs PyTorch's full wheels, and ${MT_TORCH_DIR} holds the CPU set (no NCCL there).\n"
    "Run tools/setup --cuda, or configure with -DMT_CUDA=OFF.")
endif()

# libtorch_cpu exports MKL's BLAS names and calls them through the PLT, so it must be loaded before any other BLAS. The
# CUDA libraries register themselves when loaded, so a program needs them even if it uses none of their symbols.
set(torch_libraries ${torch_lib}/libtorch_cpu.so ${torch_lib}/libc10.so)
add_library(mt_torch INTERFACE)
target_include_directories(mt_torch SYSTEM INTERFACE ${torch_include} ${torch_include}/torch/csrc/api/include)
target_compile_definitions(mt_torch INTERFACE USE_DISTRIBUTED)
if(MT_CUDA)
  target_include_directories(mt_torch SYSTEM INTERFACE ${cuda_dir}/include ${MT_TORCH_DIR}/nvidia/nccl/include)
  target_compile_definitions(mt_torch INTERFACE MT_CUDA USE_C10D_NCCL)
  target_compile_options(mt_torch INTERFACE -Wno-interference-size)
  file(GLOB cudart ${cuda_dir}/lib/libcudart.so.*)
  list(APPEND torch_libraries ${torch_lib}/libtorch_cuda.so ${torch_lib}/libc10_cuda.so ${torch_lib}/libtorch.so ${cudart})
endif()
# DT_RPATH (not RUNPATH), so that indirect dependencies are found too. Installing removes it, because it names a folder
# of the build machine.
target_link_options(mt_torch INTERFACE -Wl,--disable-new-dtags)
set(MT_TORCH_RPATH ${torch_lib})
# One word, because CMake drops repeated flags, for example a second --no-as-needed.
list(JOIN torch_libraries "," torch_libraries)
target_link_libraries(mt_torch INTERFACE "-Wl,--push-state,--no-as-needed,${torch_libraries},--pop-state"
  -Wl,-rpath-link,${cuda_dir}/lib)

# LibTorch's headers cost 8 s per file: every torch target reuses one precompiled copy of the most used ones.
# Instantiating the headers' templates at the end of each translation unit still costs 2 s. With <torch/torch.h>, which
# adds optimizers, data loaders, serialization and every module, that is 5 s, so files include what they need instead.
set(torch_headers <torch/csrc/autograd/autograd.h> <torch/csrc/distributed/c10d/ProcessGroup.hpp> <torch/nn/module.h>
  <torch/types.h> <torch/utils.h>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_pch.cc
  CONTENT "// Only carries the precompiled header.\n")
add_library(mt_torch_pch STATIC ${CMAKE_BINARY_DIR}/torch_pch.cc)
target_link_libraries(mt_torch_pch PRIVATE mt_warnings mt_torch absl::statusor)
target_precompile_headers(mt_torch_pch PRIVATE <algorithm> <chrono> <functional> <map> <memory> <optional> <string> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> ${torch_headers})
function(mt_use_torch_pch target)
  target_precompile_headers(${target} REUSE_FROM mt_torch_pch)
endfunction()

# The LibTorch files of an installed `program` go to <prefix>/lib/mtrun, so that every user can start it and the prefix
# can be moved. With CUDA that would be gigabytes, partly found only at run time, so trainers require MT_TORCH_DIR.
set(install_torch ON)
if(MT_CUDA OR MT_STATIC)
  set(install_torch OFF)
endif()
option(MT_INSTALL_TORCH "cmake --install copies what the trainers need of LibTorch" ${install_torch})
function(mt_install_torch program)
  if(NOT MT_INSTALL_TORCH)
    return()
  endif()
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:${program}>\" RESOLVED_DEPENDENCIES_VAR libraries
      UNRESOLVED_DEPENDENCIES_VAR missing POST_EXCLUDE_REGEXES \"^/(usr/)?lib\")
    foreach(library IN LISTS libraries)
      file(RELATIVE_PATH within \"${MT_TORCH_DIR}\" \"\${library}\")
      if(NOT within MATCHES \"^[.][.]\")
        get_filename_component(folder \"\${within}\" DIRECTORY)
        file(INSTALL \"\${library}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/mtrun/\${folder}\" FOLLOW_SYMLINK_CHAIN)
      endif()
    endforeach()")
endfunction()
