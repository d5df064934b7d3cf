# For packages that are to run where Debian's libraries are not: everything but glibc (and LibTorch) goes into the programs.
# Included before packages are looked for; MtPackages calls mt_link_statically behind.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)

find_library(MT_STATIC_re2 re2 REQUIRED)

# Functions that a program does not call are left out, and with them the libraries that they alone need: mtreport, which
# encrypts nothing, would bring all of OpenSSL.
add_compile_options(-ffunction-sections -fdata-sections)

# Targets of configuration files name Debian's shared libraries, and all that these need themselves: the static one of the same
# name stands beside each.
function(mt_link_statically)
  foreach(target ${ARGN})
    foreach(property IMPORTED_LOCATION_NONE IMPORTED_LOCATION)
      get_target_property(shared ${target} ${property})
      if(NOT shared)
        continue()
      endif()
      string(REGEX REPLACE "[.]so[.0-9]*$" ".a" static ${shared})
      if(NOT EXISTS ${static})
        message(FATAL_ERROR "MT_STATIC=ON: there is no ${static} (tools/setup --package-tools installs what is missing)")
      endif()
      set_target_properties(${target} PROPERTIES ${property} ${static})
    endforeach()
  endforeach()
endfunction()

# libarchive's own needs, as far as the formats that are read pull them in.
function(mt_link_archive_statically)
  set(needs "")
  foreach(name nettle acl attr lzma zstd lz4 bz2 xml2)
    find_library(MT_STATIC_${name} ${name})
    if(MT_STATIC_${name})
      list(APPEND needs ${MT_STATIC_${name}})
    endif()
  endforeach()
  set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${needs};ZLIB::ZLIB")
endfunction()
