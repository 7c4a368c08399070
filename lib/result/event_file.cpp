#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <concepts>

#include "core/output_file.hpp"
#include "result/formats.hpp"

namespace hetsgd {
namespace {

constexpr const char* kWhat = "the event file";

// Appends in little-endian order on any host.
template <std::unsigned_integral Number>
void append_fixed(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  }
}

void append_varint(std::string& bytes, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) bytes.push_back(static_cast<char>((number & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(number));
}

// The types of fields are 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void append_key(std::string& bytes, unsigned field, unsigned type) {
  append_varint(bytes, field << 3 | type);
}

void append_double(std::string& bytes, unsigned field, double value) {
  append_key(bytes, field, 1);
  append_fixed(bytes, std::bit_cast<std::uint64_t>(value));
}

void append_float(std::string& bytes, unsigned field, float value) {
  append_key(bytes, field, 5);
  append_fixed(bytes, std::bit_cast<std::uint32_t>(value));
}

void append_bytes(std::string& bytes, unsigned field, const std::string& value) {
  append_key(bytes, field, 2);
  append_varint(bytes, value.size());
  bytes += value;
}

std::uint32_t masked_crc32c(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

// The scalars of point `i` under the names by which TensorBoard groups and sorts them.
std::vector<std::pair<std::string, double>> scalars_of(const Record& record, std::size_t i,
                                                       double learning_rate) {
  const CurvePoint& point = record.curve[i];
  std::vector<std::pair<std::string, double>> scalars;
  for (const MetricValue& each : point.metrics) {
    const std::string key = each.metric->key();
    scalars.emplace_back("test/" + (key == kTestLoss ? "loss" : key), each.value);
  }
  scalars.emplace_back("learning_rate", learning_rate);
  if (i == 0) return scalars;
  if (!point.no_batch) scalars.emplace_back("train/loss", point.train_loss);
  const CurvePoint& before = record.curve[i - 1];
  if (const double time_s = (point.time - before.time).count(); time_s > 0) {
    const auto samples = static_cast<double>(point.samples_count - before.samples_count);
    scalars.emplace_back("samples_per_s", samples / time_s);
  }
  return scalars;
}

}  // namespace

std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    append_bytes(value, 1, tag);
    append_float(value, 2, static_cast<float>(number));
    append_bytes(summary, 1, value);
  }
  std::string event;
  append_double(event, 1, wall_time);
  append_key(event, 2, 0);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_bytes(event, 5, summary);
  return event;
}

std::string framed(const std::string& data) {
  std::string record;
  append_fixed(record, static_cast<std::uint64_t>(data.size()));
  append_fixed(record, masked_crc32c(record));
  record += data;
  append_fixed(record, masked_crc32c(data));
  return record;
}

EventFile::EventFile(std::string path, std::function<double(double)> learning_rate)
    : path_(std::move(path)),
      learning_rate_(std::move(learning_rate)),
      file_(std::fopen(path_.c_str(), expects_no_file(path_) ? "wbx" : "wb"), &std::fclose) {
  if (!file_) throw write_error(ExitCode::runtime, path_, kWhat, errno);
}

void EventFile::append(const std::string& event) {
  const std::string record = framed(event);
  if (error_ == 0 && std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) {
    error_ = errno;
  }
}

void EventFile::write(const Record& record) {
  for (; written_ < record.curve.size(); ++written_) {
    const CurvePoint& point = record.curve[written_];
    const double wall_time =
        record.phases.began_unix_s + (record.virtual_time ? point.time.count() : point.wall_s);
    if (written_ == 0) {
      std::string first;
      append_double(first, 1, wall_time);
      append_bytes(first, 3, "brain.Event:2");
      append(first);
    }
    append(scalar_event(wall_time, static_cast<std::int64_t>(point.samples_count),
                        scalars_of(record, written_, learning_rate_(point.epoch_num))));
  }
  if (error_ == 0 && std::fflush(file_.get()) != 0) error_ = errno;
}

void EventFile::check() const {
  if (error_ != 0) throw write_error(ExitCode::runtime, path_, kWhat, error_);
}

}  // namespace hetsgd
