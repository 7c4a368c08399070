// Files of images, in memory: IDX (MNIST, Fashion-MNIST) and the binary form of CIFAR-10 and
// CIFAR-100.
//
//   IDX        big endian: the bytes 0 0 8 3, three numbers of 32 bits (images, rows, columns), the
//              pixels. The labels lie in a file of their own: 0 0 8 1, their number, a byte each.
//   CIFAR-10   records of 3,073 bytes: the label (0 to 9), then 32x32 of red, of green and of blue
//   CIFAR-100  records of 3,074 bytes: the coarse label (0 to 19), the label (0 to 99), the pixels
//
// The format is told by the content: IDX by its first bytes; CIFAR by the size of the file and the
// labels of all its records. Several files of CIFAR are one file when they are joined:
//   cat data_batch_*.bin > train.bin
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/load_options.hpp"

namespace hetsgd {

// The image format of `bytes`; none if they are something else. `stated` is the user's choice, or
// detect; if another format is stated, the result is none.
std::optional<DataFormat> image_format(std::string_view bytes, DataFormat stated);

// Refuses an IDX file of other numbers or dimensions, with Error(data) that says what it has.
void refuse_other_idx(std::string_view bytes, const std::string& path);

// Advice for a user whose `bytes` are neither text nor images. It is given if their size is that of
// CIFAR's records, or if the labels are those of records and the last record is cut off. Else "".
std::string hint_of_cifar(std::string_view bytes);

// The label file that belongs to an IDX file of images, by their names: train-images-idx3-ubyte.gz
// and train-labels-idx1-ubyte.gz. None if the name has no "images" or no such file is there.
std::optional<std::string> label_file_of(const std::string& path);

// A data set of one label per row, with the statistics of these rows. `path` names the file in
// messages. Throws Error(data) for sizes that do not fit and labels out of range.
ParsedData parse_idx(std::string_view images, std::string_view labels, const std::string& path);
ParsedData parse_cifar(std::string_view bytes, DataFormat format, const std::string& path);

}  // namespace hetsgd
