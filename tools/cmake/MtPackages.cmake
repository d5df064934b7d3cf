# Packages from Debian, as found by `tools/setup`. docs/design.md says why each one is here.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibArchive REQUIRED)
find_package(CURL REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)

# For mtdata alone, to read WebP, BMP and TIFF; without it they are refused by name. libopencv-dev pulls in 210 packages; the
# three small -dev packages carry no CMake config, hence find_library.
option(MT_OPENCV "mtdata reads WebP, BMP and TIFF through OpenCV" ON)
add_library(mt_opencv INTERFACE)
if(MT_OPENCV)
  foreach(part core imgproc imgcodecs)
    find_library(MT_OPENCV_${part} opencv_${part} REQUIRED)
    target_link_libraries(mt_opencv INTERFACE ${MT_OPENCV_${part}})
  endforeach()
  target_include_directories(mt_opencv SYSTEM INTERFACE /usr/include/opencv4)
  target_compile_definitions(mt_opencv INTERFACE MT_OPENCV)
endif()

find_path(MT_ASIO_INCLUDE asio.hpp REQUIRED)
add_library(mt_asio INTERFACE)
target_include_directories(mt_asio SYSTEM INTERFACE ${MT_ASIO_INCLUDE})
# Without the last one, whether asio allocates by aligned_alloc or operator new depends on what a file includes before it.
target_compile_definitions(mt_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_DISABLE_STD_ALIGNED_ALLOC)
target_link_libraries(mt_asio INTERFACE Threads::Threads)
if(MT_SANITIZE MATCHES thread)
  target_compile_options(mt_asio INTERFACE -Wno-tsan)  # asio's fences: TSan cannot see them, asio's mutexes it can
endif()

find_path(MT_BOOST_INCLUDE boost/beast.hpp REQUIRED)
add_library(mt_boost INTERFACE)
target_include_directories(mt_boost SYSTEM INTERFACE ${MT_BOOST_INCLUDE})
target_link_libraries(mt_boost INTERFACE Threads::Threads)
if(MT_SANITIZE MATCHES thread)
  target_compile_options(mt_boost INTERFACE -Wno-tsan)  # as above
endif()

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_path(MT_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
  find_library(MT_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(mt_rapidcheck INTERFACE)
  target_include_directories(mt_rapidcheck SYSTEM INTERFACE ${MT_RAPIDCHECK_INCLUDE})
  target_link_libraries(mt_rapidcheck INTERFACE ${MT_RAPIDCHECK_LIBRARY})
endif()
