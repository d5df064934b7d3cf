# For packages that must run without Debian's libraries: everything but glibc (and LibTorch) is linked statically.
# Included before packages are searched; MtPackages calls mt_link_statically afterwards.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)

find_library(MT_STATIC_re2 re2 REQUIRED)

# Drops unused functions and the libraries that only they need: mtreport, which encrypts nothing, would otherwise
# include all of OpenSSL.
add_compile_options(-ffunction-sections -fdata-sections)

# Targets of configuration files name Debian's shared libraries and all their dependencies; the static library of the
# same name is beside each.
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

# libarchive's own dependencies, as far as the formats that are read need them.
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

# libtiff's own dependencies.
function(mt_link_tiff_statically)
  set(needs "")
  foreach(name webp zstd lzma jbig Lerc deflate jpeg)
    find_library(MT_STATIC_TIFF_${name} ${name} REQUIRED)
    list(APPEND needs ${MT_STATIC_TIFF_${name}})
  endforeach()
  set_property(TARGET TIFF::TIFF APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${needs};ZLIB::ZLIB")
endfunction()
