// Images of a data set in the form that a model reads, and how data become images.
//
// Normal form : a pixel is (byte - mean) / deviation of its channel; both are statistics of the
//               training rows, which test data take over.
// Changes     : crop and flip of the batch's augmentation. A cropped image is a random window of
//               size H x W of the image with kCropPadding pixels around it. The padding is 0 in
//               normal form (He et al., 2016, section 4.2). The draws are Philox at the sample's
//               place in the sequence: the same for a seed, an epoch and a row.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "data/batch.hpp"
#include "data/dataset.hpp"

namespace hetsgd {

inline constexpr Index kCropPadding = 4;  // pixels on each side
inline constexpr Index kLargestSide = 1 << 15;

// to[count x C x H x W] <- the images first .. first + count of the batch, in normal form, changed
// by the batch's augmentation. The data set must have images.
template <class Real>
void copy_images(const Batch& batch, std::size_t first, std::size_t count, Real* to);

// "1x28x28": channels, height, width. Throws Error(usage) naming `option`.
ImageShape parse_image_shape(const std::string& option, std::string_view text);

// Sets mean and standard deviation of each channel. If all bytes of a channel are equal, its
// deviation is set to 1.
void set_image_statistics(DatasetBuilder& data);
// The same for `data` alone: other views keep their statistics.
void set_image_statistics(Dataset& data);
// Takes over the statistics of the training data. Throws Error(data) for images of another shape;
// `path` names them.
void match_images(Dataset& data, const Dataset& training, const std::string& path);

// The full scale of pixels in sparse rows, by their values: 1 if none is above 1, else 255.
float full_scale_of(const Dataset& data);

// Turns sparse rows into images: feature i of a row is pixel i, row-major in [C, H, W]. With a
// `full_scale` of 255 values are bytes; with 1 they are fractions, rounded to bytes. Throws
// Error(data) for a feature beyond the last pixel, a value below 0 or above `full_scale`, or a byte
// that is not whole.
void scatter_to_images(Dataset& data, const ImageShape& shape, float full_scale,
                       const std::string& path);

}  // namespace hetsgd
