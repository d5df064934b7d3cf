// Exif in a text chunk of PNG, where ImageMagick writes it. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::datasets {

/// Returns the Exif block, from its TIFF header on, of a chunk (tEXt, zTXt or iTXt) whose keyword is "Raw
/// profile type exif": a name, a length and the bytes in hexadecimal, in lines. "" for other chunks and
/// damaged ones. Source: Pillow 13.0 and ExifTool read this; no specification names it.
std::string ExifProfileOf(std::string_view chunk_name, std::string_view body);

}  // namespace mtrun::datasets
