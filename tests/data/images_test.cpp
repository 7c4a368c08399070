// Images: readers, normal form, changes, and every way in which they travel.
#include "data/images.hpp"

#include "data/binary.hpp"
#include "data/generate_images.hpp"
#include "data/image_files.hpp"
#include "data/sampler.hpp"
#include "data/select.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

using testing::Ge;
using testing::Le;

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

std::string idx_images(std::uint32_t rows, std::uint32_t height, std::uint32_t width,
                       const std::string& pixels) {
  return std::string("\0\0\x08\x03", 4) + big_endian(rows) + big_endian(height) +
         big_endian(width) + pixels;
}

std::string idx_labels(const std::string& labels) {
  return std::string("\0\0\x08\x01", 4) + big_endian(static_cast<std::uint32_t>(labels.size())) +
         labels;
}

// Three images of 1x2x2 with the labels 2, 0, 1.
constexpr const char* kPixels = "abcdefghijkl";

class ImagesTest : public testing::Test {
 protected:
  ImagesTest() { options_.cache_directory = folder_ / "cache"; }

  std::string write_pair(const std::string& name, const std::string& images,
                         const std::string& labels) {
    write_file(folder_ / (name + "-images-idx3-ubyte"), images);
    write_file(folder_ / (name + "-labels-idx1-ubyte"), labels);
    return folder_ / (name + "-images-idx3-ubyte");
  }
  std::string three() {
    return write_pair("train", idx_images(3, 2, 2, kPixels), idx_labels(std::string("\2\0\1", 3)));
  }

  TemporaryFolder folder_;
  LoadOptions options_;
};

TEST_F(ImagesTest, IdxGivesPixelsLabelsAndStatistics) {
  const LoadedData loaded = load_dataset(three(), options_);
  const Dataset& data = *loaded.data;
  EXPECT_EQ(loaded.report.format, DataFormat::idx);
  EXPECT_EQ(data.task, Task::multiclass);
  EXPECT_EQ(data.label_count, 3U);
  EXPECT_EQ(data.feature_count, 0U);
  EXPECT_EQ(data.images.shape(), (ImageShape{1, 2, 2}));
  EXPECT_THAT(data.images.row(1), ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_THAT(data.labels(0), ElementsAre(2));
  EXPECT_THAT(loaded.report.label_names, ElementsAre("0", "1", "2"));
  // The bytes are 97 .. 108: mean 102.5, variance (12^2 - 1) / 12.
  EXPECT_FLOAT_EQ(data.images.mean[0], 102.5F);
  EXPECT_FLOAT_EQ(data.images.deviation[0], std::sqrt(143.0F / 12));
  EXPECT_THAT(verify(data), IsEmpty());
}

TEST_F(ImagesTest, CompressedAndCachedIdxIsTheSame) {
  const LoadedData plain = load_dataset(three(), options_);
  EXPECT_FALSE(plain.report.from_cache);
  const LoadedData again = load_dataset(three(), options_);
  EXPECT_TRUE(again.report.from_cache);
  const std::string path = write_pair("packed", gzip(idx_images(3, 2, 2, kPixels)),
                                      gzip(idx_labels(std::string("\2\0\1", 3))));
  const LoadedData packed = load_dataset(path, options_);
  for (const LoadedData* other : {&again, &packed}) {
    expect_same_data(*plain.data, *other->data);
    EXPECT_EQ(other->report.format, DataFormat::idx);
  }
}

// The labels are a file of their own, of which the cache's key must know.
TEST_F(ImagesTest, OtherLabelsAreNotTakenFromTheCache) {
  const LoadedData first = load_dataset(three(), options_);
  const std::string path = write_pair("train", idx_images(3, 2, 2, kPixels), idx_labels("\1\1\1"));
  const LoadedData second = load_dataset(path, options_);
  EXPECT_FALSE(second.report.from_cache);
  EXPECT_THAT(second.data->labels(0), ElementsAre(1));
  EXPECT_NE(first.data->content_hash, second.data->content_hash);
}

TEST_F(ImagesTest, BadIdxIsAnErrorThatSaysWhatIsWrong) {
  const std::string good = idx_images(3, 2, 2, kPixels);
  const auto error = [&](const std::string& images, const std::string& labels) {
    return error_of([&] { parse_idx(images, labels, "x"); });
  };
  EXPECT_THAT(error(good.substr(0, 20), idx_labels("\1\1\1")),
              HasSubstr("x: cut off or grown: found 4 bytes of images, expected 12"));
  EXPECT_THAT(error(good.substr(0, 9), idx_labels("\1\1\1")),
              HasSubstr("not an IDX file of images"));
  EXPECT_THAT(error(good, good), HasSubstr("not an IDX file of labels"));
  const std::string floats = std::string("\0\0\x0d\x03", 4) + good.substr(4);
  write_file(folder_ / "floats", floats);
  EXPECT_THAT(error_of([&] { load_dataset(folder_ / "floats", options_); }),
              HasSubstr("floats: found IDX data: 32-bit floats in 3 dimensions, expected IDX "
                        "images: bytes in 3 dimensions"));
  write_file(folder_ / "labels", idx_labels("\1\1\1"));
  EXPECT_THAT(error_of([&] { load_dataset(folder_ / "labels", options_); }),
              HasSubstr("found IDX data: bytes in 1 dimensions"));
  EXPECT_THAT(error(good, idx_labels("\1\1")), HasSubstr("found 2 labels, expected 3"));
  EXPECT_THAT(error(idx_images(0, 2, 2, ""), idx_labels("")), HasSubstr("0 images of 2x2"));
  // 2^32 - 1 to the third is more than 2^64.
  EXPECT_THAT(error(idx_images(~0U, ~0U, ~0U, ""), idx_labels("")), HasSubstr("more than 2^64"));
  write_file(folder_ / "images-idx3-ubyte", good);
  EXPECT_THAT(error_of([&] { load_dataset(folder_ / "images-idx3-ubyte", options_); }),
              HasSubstr("found images without a file of labels"));
}

TEST_F(ImagesTest, CifarIsToldByItsRecords) {
  const auto record = [](const std::string& labels, char first) {
    return labels + std::string(3072, first);
  };
  const std::string ten = record("\3", 'r') + record(std::string("\0", 1), 's');
  const std::string hundred = record("\7\x2a", 'r') + record(std::string("\0\x63", 2), 's');
  write_file(folder_ / "ten", ten);
  write_file(folder_ / "hundred", hundred);
  const LoadedData a = load_dataset(folder_ / "ten", options_);
  EXPECT_EQ(a.report.format, DataFormat::cifar10);
  EXPECT_EQ(a.data->label_count, 10U);
  EXPECT_EQ(a.data->images.shape(), (ImageShape{3, 32, 32}));
  EXPECT_THAT(a.data->labels(0), ElementsAre(3));
  EXPECT_EQ(a.data->images.row(1)[3071], 's');
  const LoadedData b = load_dataset(folder_ / "hundred", options_);
  EXPECT_EQ(b.report.format, DataFormat::cifar100);
  EXPECT_THAT(b.data->labels(0), ElementsAre(42));  // the fine label
  EXPECT_THAT(b.data->labels(1), ElementsAre(99));
  EXPECT_THAT(error_of([&] { parse_cifar(ten.substr(1), DataFormat::cifar10, "x"); }),
              HasSubstr("x: found 2 records of 3073 bytes less 1 bytes, expected whole records"));
  const std::string dark = record("\1", '\0') + record("\2", 's');
  write_file(folder_ / "cut", dark.substr(0, dark.size() - 5));
  EXPECT_THAT(error_of([&] { load_dataset(folder_ / "cut", options_); }),
              HasSubstr("| as cifar10 it has 2 records of 3073 bytes less 5 bytes"));
  EXPECT_THAT(error_of([&] { parse_cifar(record("\x0c", 'r'), DataFormat::cifar10, "x"); }),
              HasSubstr("x: image 1: found label 12, expected 0 to 9"));
}

TEST_F(ImagesTest, TestDataTakeTheTrainingDatasStatistics) {
  const std::string test =
      write_pair("test", idx_images(1, 2, 2, "zzzz"), idx_labels(std::string("\0", 1)));
  const LoadedPair pair = load_pair(three(), test, options_);
  EXPECT_EQ(pair.test.data->images.mean[0], pair.train.data->images.mean[0]);
  EXPECT_EQ(pair.test.data->label_count, 3U);
  const std::string wide = write_pair("wide", idx_images(1, 1, 3, "zzz"), idx_labels("\1"));
  EXPECT_THAT(error_of([&] { load_pair(three(), wide, options_); }),
              HasSubstr("found images of 1x1x3, expected 1x2x2 as in the training data"));
}

TEST_F(ImagesTest, HeldOutRowsDoNotCountInTheStatistics) {
  const LoadedData all = load_dataset(three(), options_);
  const LoadedPair pair = hold_out(all, {HeldOut::Which::tail, 1.0 / 3});
  EXPECT_FLOAT_EQ(pair.train.data->images.mean[0], 100.5F);  // of 97 .. 104
  EXPECT_FLOAT_EQ(pair.test.data->images.mean[0], 100.5F);
  EXPECT_FLOAT_EQ(all.data->images.mean[0], 102.5F);
}

TEST_F(ImagesTest, BinaryFormKeepsImagesAndReadsSomeRows) {
  const LoadedData loaded = load_dataset(three(), options_);
  const std::string path = folder_ / "three.hsgd";
  save_dataset(path, *loaded.data, loaded.report);
  const LoadedData whole = load_dataset(path, options_);
  expect_same_data(*loaded.data, *whole.data);
  options_.train_rows.rows = [](const Dataset&) { return std::vector<Index>{2, 0}; };
  const LoadedData part = load_dataset(path, options_);
  EXPECT_THAT(part.data->images.row(0), ElementsAre('i', 'j', 'k', 'l'));
  EXPECT_THAT(part.data->images.row(1), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_EQ(part.data->images.mean[0], loaded.data->images.mean[0]);
  EXPECT_EQ(part.data->totals().rows, 3U);

  const std::string bytes = read_file(path);
  // A pixel: 12 of them and 52 zeros end the file.
  write_file(path, damaged(bytes, bytes.size() - 60));
  options_.train_rows.rows = [](const Dataset&) { return std::vector<Index>{1}; };
  EXPECT_THAT(error_of([&] { load_dataset(path, options_); }), HasSubstr("checksum of row 2"));
}

TEST_F(ImagesTest, SparseRowsBecomeImages) {
  write_file(folder_ / "rows.svm", "1 1:0.5 4:1\n2 2:0.25\n1 3:1\n");
  options_.image = ImageShape{1, 2, 2};
  const LoadedData loaded = load_dataset(folder_ / "rows.svm", options_);
  const Dataset& data = *loaded.data;
  EXPECT_EQ(data.feature_count, 0U);
  EXPECT_EQ(data.sparse.rows(), 0U);
  EXPECT_THAT(data.images.row(0), ElementsAre(128, 0, 0, 255));
  EXPECT_THAT(data.images.row(1), ElementsAre(0, 64, 0, 0));
  EXPECT_THAT(verify(data), IsEmpty());
  // The same as bytes; XC text counts from 0.
  write_file(folder_ / "rows.txt", "3 4 2\n0 0:128 3:255\n1 1:64\n0 2:255\n");
  const LoadedData bytes = load_dataset(folder_ / "rows.txt", options_);
  EXPECT_TRUE(std::ranges::equal(bytes.data->images.pixel, data.images.pixel));
  // Statistics are those of all rows, also where only some are kept.
  options_.train_rows.rows = [](const Dataset&) { return std::vector<Index>{1}; };
  for (int cached = 0; cached < 2; ++cached) {
    const LoadedData part = load_dataset(folder_ / "rows.svm", options_);
    EXPECT_THAT(part.data->images.pixel, ElementsAre(0, 64, 0, 0));
    EXPECT_EQ(part.data->images.mean[0], data.images.mean[0]);
  }
}

// The scale of pixels is that of the training file, whatever a test file shows.
TEST_F(ImagesTest, TheTrainingFileScalesThePixelsOfBothFiles) {
  const std::string bytes = "1 1:255 4:200\n2 2:3\n", dark = "1 1:1\n2 4:1\n";
  const std::string shares = "1 1:0.5 4:1\n2 2:0.2\n";
  options_.image = ImageShape{1, 2, 2};
  const auto load = [&](const std::string& train, const std::string& test) {
    write_file(folder_ / "train.svm", train);
    write_file(folder_ / "test.svm", test);
    return load_pair(folder_ / "train.svm", folder_ / "test.svm", options_);
  };
  const LoadedPair of_bytes = load(bytes, dark);
  EXPECT_THAT(of_bytes.test.data->images.row(0), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(of_bytes.test.report.warnings,
              ElementsAre(HasSubstr("test.svm: no pixel is above 1, but those of the training")));
  const LoadedPair of_shares = load(shares, dark);
  EXPECT_THAT(of_shares.test.data->images.row(0), ElementsAre(255, 0, 0, 0));
  EXPECT_THAT(of_shares.test.report.warnings, IsEmpty());
  EXPECT_THAT(load(bytes, bytes).test.report.warnings, IsEmpty());
  EXPECT_THAT(
      error_of([&] { load(shares, bytes); }),
      AllOf(HasSubstr("test.svm: row 1: found a pixel of 255, expected a share from 0 to 1"),
            HasSubstr("as in the training data")));
  EXPECT_THAT(error_of([&] { load(bytes, "1 1:17.3\n2 2:255\n"); }),
              HasSubstr("row 1: found a pixel of 17.3, expected whole numbers from 0 to 255"));
}

TEST_F(ImagesTest, RowsThatAreNoImagesAreErrors) {
  const auto error = [&](const std::string& text) {
    write_file(folder_ / "bad.svm", text);
    options_.image = ImageShape{1, 2, 2};
    return error_of([&] { load_dataset(folder_ / "bad.svm", options_); });
  };
  EXPECT_THAT(error("1 1:1\n2 5:1\n"),
              HasSubstr("row 2: found feature 4 (counted from 0), expected less than 4"));
  EXPECT_THAT(error("1 1:1\n2 2:-1\n"), HasSubstr("row 2: found a pixel of -1"));
  EXPECT_THAT(error("1 1:300\n2 2:1\n"), HasSubstr("row 1: found a pixel of 300"));
  EXPECT_THAT(error_of([&] { load_dataset(three(), options_); }, ExitCode::usage),
              HasSubstr("without sparse rows, with images already"));
  EXPECT_EQ(parse_image_shape("--image", "3x32x16"), (ImageShape{3, 32, 16}));
  for (const char* text : {"28x28", "0x1x1", "1x28xa"}) {
    EXPECT_THAT(error_of([&] { parse_image_shape("--image", text); }, ExitCode::usage),
                HasSubstr("--image"));
  }
}

// Pixel (y, x) has the byte 16 y + x + 1, so that a value tells where it comes from.
DatasetPtr map_of_places(Index rows, Index side) {
  DatasetBuilder data = test::dataset_of(Task::multilabel, 1);
  data.images.channels = 1;
  data.images.height = data.images.width = side;
  for (Index row = 0; row < rows; ++row) {
    for (Index y = 0; y < side; ++y) {
      for (Index x = 0; x < side; ++x) {
        data.images.pixel.push_back(static_cast<std::uint8_t>(16 * y + x + 1));
      }
    }
    test::end_row(data);
  }
  data.images.mean = {0};
  data.images.deviation = {1};
  return std::move(data).share();
}

TEST(ImageBatch, NormalFormIsByChannel) {
  DatasetBuilder builder = test::dataset_of(Task::multilabel, 1);
  builder.images = {2, 1, 2, {10, 20, 30, 40, 50, 60, 70, 80}, {15, 5}, {2, 0.5F}};
  builder.targets.begin = {0, 0, 0};
  const Dataset data = std::move(builder).build();
  const Batch batch(data, {1, 0});
  std::vector<double> to(8);
  copy_images(batch, 0, 2, to.data());
  EXPECT_THAT(to, ElementsAre(17.5, 22.5, 130, 150, -2.5, 2.5, 50, 70));
  std::vector<float> second(4);
  copy_images(batch, 1, 1, second.data());
  EXPECT_THAT(second, ElementsAre(-2.5F, 2.5F, 50, 70));
}

// Every pixel is zero, or comes from the place that one shift and one mirroring say.
TEST(ImageBatch, AugmentationIsAShiftAndAMirroring) {
  constexpr Index kSide = 12;
  constexpr std::size_t kRows = 400;
  const DatasetPtr data = map_of_places(1, kSide);
  Batch batch;
  batch.reset(*data, {Augmentation::crop_flip, 7, 1000}).assign(kRows, 0);
  std::vector<float> to(kRows * kSide * kSide);
  copy_images(batch, 0, kRows, to.data());
  std::size_t mirrored = 0;
  std::array<int, 9> down{}, right{};
  for (std::size_t row = 0; row < kRows; ++row) {
    const float* const image = &to[row * kSide * kSide];
    const auto source = [&](int y, int x) { return static_cast<int>(image[y * 12 + x]) - 1; };
    // The middle pixels always come from inside.
    const bool flipped = source(5, 6) < source(5, 5);
    const int dy = source(5, 5) / 16 - 5, dx = source(5, 5) % 16 - (flipped ? 6 : 5);
    mirrored += flipped;
    ASSERT_THAT(dy, AllOf(Ge(-4), Le(4)));
    ASSERT_THAT(dx, AllOf(Ge(-4), Le(4)));
    ++down[static_cast<std::size_t>(dy + 4)];
    ++right[static_cast<std::size_t>(dx + 4)];
    for (int y = 0; y < 12; ++y) {
      for (int x = 0; x < 12; ++x) {
        const int fy = y + dy, fx = (flipped ? 11 - x : x) + dx;
        const bool inside = fy >= 0 && fy < 12 && fx >= 0 && fx < 12;
        ASSERT_EQ(source(y, x), inside ? 16 * fy + fx : -1) << row << ' ' << y << ' ' << x;
      }
    }
  }
  // Binomial: 200 +- 5 deviations of 10; each shift 44 +- 5 deviations of 6.3.
  EXPECT_THAT(mirrored, AllOf(Ge(150U), Le(250U)));
  EXPECT_THAT(down, testing::Each(AllOf(Ge(12), Le(76))));
  EXPECT_THAT(right, testing::Each(AllOf(Ge(12), Le(76))));
}

TEST(ImageBatch, SamplersChangeTrainingImagesByTheirPlaceAlone) {
  const DatasetPtr data = map_of_places(6, 12);
  const auto images = [&](Augmentation change, int workers, SampleRange range) {
    const Sampler sampler(data, {.partition = workers > 1 ? Partition::iid : Partition::shared,
                                 .seed = 3,
                                 .workers = workers,
                                 .augmentation = change});
    Batch batch;
    sampler.fill(workers - 1, range, batch);
    std::vector<float> to(batch.size() * 144);
    copy_images(batch, 0, batch.size(), to.data());
    return to;
  };
  const auto both = images(Augmentation::crop_flip, 1, {0, 12});
  // All rows are alike: unchanged images would be, too; and epochs differ.
  EXPECT_FALSE(std::equal(both.begin(), both.begin() + 6 * 144, both.begin() + 6 * 144));
  // However the batches are cut.
  const auto tail = images(Augmentation::crop_flip, 1, {5, 7});
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), both.begin() + 5 * 144));
  EXPECT_NE(images(Augmentation::crop_flip, 2, {0, 3}), images(Augmentation::crop_flip, 1, {0, 3}));
  const auto plain = images(Augmentation::none, 1, {0, 2});
  EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + 144, plain.begin() + 144));
  // A process with one shard alone makes the same batches.
  const Sampler::Options options{
      .partition = Partition::iid, .seed = 3, .workers = 2, .augmentation = Augmentation::crop};
  const Sampler all(data, options);
  const Sampler own(shard_of(*data, all.shard(1)), options, 1);
  Batch a, b;
  all.fill(1, {1, 4}, a);
  own.fill(1, {1, 4}, b);
  std::vector<float> left(4 * 144), right(4 * 144);
  copy_images(a, 0, 4, left.data());
  copy_images(b, 0, 4, right.data());
  EXPECT_EQ(left, right);
}

TEST(GeneratedImages, AreAPureFunctionOfTheOptions) {
  const ImageOptions options =
      parse_image_spec("generate:images?classes=4&size=8&channels=2&rows_train=300&rows_test=50");
  const ParsedData one = generate_images(options, DataPart::train, 1);
  const ParsedData four = generate_images(options, DataPart::train, 4);
  expect_same_data(one.data, four.data);
  EXPECT_THAT(verify(one.data), IsEmpty());
  EXPECT_EQ(one.data.images.shape(), (ImageShape{2, 8, 8}));
  EXPECT_EQ(one.data.label_count, 4U);
  const ParsedData test = generate_images(options, DataPart::test, 1);
  EXPECT_EQ(test.data.rows(), 50U);
  EXPECT_NE(test.data.content_hash, one.data.content_hash);
  EXPECT_THAT(error_of([] { parse_image_spec("generate:images?sice=8"); }, ExitCode::usage),
              HasSubstr("sice"));
}

// Without noise, images are windows of their templates: the same window of a class is the same
// image, and there are no more of them than (2 size/7 + 1)^2 places times classes.
TEST(GeneratedImages, WithoutNoiseAreWindowsOfTemplates) {
  const ImageOptions options =
      parse_image_spec("generate:images?classes=3&size=8&channels=1&rows_train=2000&noise=0");
  const ParsedData parsed = generate_images(options, DataPart::train, 1);
  std::map<std::vector<std::uint8_t>, Index> label_of;
  for (std::uint64_t row = 0; row < parsed.data.rows(); ++row) {
    const auto pixels = parsed.data.images.row(row);
    const Index label = parsed.data.labels(row)[0];
    const auto [at, is_new] = label_of.try_emplace({pixels.begin(), pixels.end()}, label);
    ASSERT_EQ(at->second, label);
  }
  EXPECT_EQ(label_of.size(), 27U);
}

}  // namespace
}  // namespace hetsgd
