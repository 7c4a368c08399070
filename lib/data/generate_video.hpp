// Videos as a recurrent model reads them, a vector of features per frame, with the lengths of
// UCF101's clips: `generate:video?clips=13320&classes=101&size=2048`.
//
// Lengths: lognormal with median 164.7 and sigma 0.494 frames, cut to 29 .. 1,776. So they have the
//          mean 186 and the deviation 97.7 of UCF101's 13,320 clips (RNA, 5.5.2.3; K. Soomro and
//          others, 2012). The longest of so many draws has some 1,000 frames: the one clip of 1,776
//          lies outside of the law.
// Frames : a class is a mean path, kVideoKnots vectors of normal numbers joined by lines. A clip of
//          any length follows the path from its first frame to its last. Each element of a frame is
//          that of the path plus normal noise of deviation `noise`.
// Memory : frames=stored keeps 4 bytes per element, 20 GB for UCF101's size; a smaller `size`
//          learns as well. frames=drawn keeps none and makes a row's frames each time a batch reads
//          them, which takes a core some 40 ns per element (measured).
// Every row is a pure function of (options, part, row): the same bytes for any number of threads,
// stored or drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/generator.hpp"

namespace hetsgd {

enum class VideoFrames { stored, drawn };

struct VideoOptions : GeneratedRows {
  VideoOptions() : GeneratedRows{"video", 13320, 2000} {}  // a row is a clip

  Index classes = 101;
  Index size = 2048;                     // elements of a frame
  double median = 164.7, sigma = 0.494;  // of the lengths, in frames
  std::uint64_t shortest = 29, longest = 1776;
  double noise = 1;
  VideoFrames frames = VideoFrames::stored;
};

inline constexpr std::string_view kVideoPreset = "video";

// Throws Error(usage) naming what is wrong.
VideoOptions parse_video_spec(std::string_view spec);

// The number of frames of a clip, known without making the frames.
std::uint64_t video_length(const VideoOptions& options, DataPart part, std::uint64_t row);

// Generates one part, on `threads` threads (none: all cores).
ParsedData generate_video(const VideoOptions& options, DataPart part,
                          std::optional<int> threads = {});

}  // namespace hetsgd
