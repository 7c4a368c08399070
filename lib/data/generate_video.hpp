// Videos as a recurrent model reads them, a vector of features per frame, with the lengths of
// UCF101's clips: `generate:video?clips=13320&classes=101&size=2048`.
//
// Lengths: lognormal with median 164.7 and sigma 0.494 frames, cut to 29 .. 1,776, and so of mean
//          186 and deviation 97.7, as the 13,320 clips of UCF101 have (paper 004, 5.5.2.3; K. Soomro
//          and others, 2012). The longest of so many draws has some 1,000 frames: the one clip of
//          1,776 lies outside of the law.
// Frames : a class is a mean path: kVideoKnots vectors of normal numbers, with lines between them,
//          which a clip of any length goes along from its first frame to its last. Each number of a
//          frame is that of the path and normal noise of deviation `noise`.
// Memory : frames=stored keeps 4 bytes a number, of UCF101's size 20 GB; a smaller `size` learns as
//          well. frames=drawn keeps none and makes a row's frames each time that a batch reads
//          them, which takes a core some 40 ns a number (measured).
// Every row is a pure function of (options, part, row): the same bytes for any number of threads,
// and for both.
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
  Index size = 2048;                     // numbers of a frame
  double median = 164.7, sigma = 0.494;  // of the lengths, in frames
  std::uint64_t shortest = 29, longest = 1776;
  double noise = 1;
  VideoFrames frames = VideoFrames::stored;
};

inline constexpr std::string_view kVideoPreset = "video";

// Throws Error(usage) naming what is wrong.
VideoOptions parse_video_spec(std::string_view spec);

// Frames of a clip, which are known without the frames themselves.
std::uint64_t video_length(const VideoOptions& options, DataPart part, std::uint64_t row);

// One part, on `threads` threads (none: all cores).
ParsedData generate_video(const VideoOptions& options, DataPart part,
                          std::optional<int> threads = {});

}  // namespace hetsgd
