// The recurrent model of paper 004, 5.5.2.3: features of a video's frames in, its class out.
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

class LstmVideo final : public Family {
 public:
  NetworkInfo info() const override { return {"lstm-video", "of paper 004, steps x 2048"}; }
  void declare(OptionSet& set) override {
    set.add("steps", steps_, "frames of a clip").range(1, 1e5);
    set.add("classes", classes_, "").range(2, 1e6);
    set.add("size", size_, "features of a frame").range(1, 1e5);
    set.add("units", units_, "of the lstm").range(1, 1e5);
    set.add("dense", dense_, "units of the layer behind it").range(1, 1e5);
    set.add("dropout", dropout_, "share of these units").range(0, 0.99);
  }
  Graph build(const std::string& name) const override {
    Builder net(name, {size_, steps_, 1});
    net.lstm(units_);
    net.fc(dense_);
    net.dropout(dropout_);
    net.fc(classes_);
    return net.finish();
  }

 private:
  int steps_ = 186, classes_ = 101;  // the mean of UCF101's clips, its classes
  int size_ = 2048, units_ = 2048, dense_ = 512;
  double dropout_ = 0.5;
};

}  // namespace

void add_lstm(std::vector<std::unique_ptr<Family>>& list) {
  list.push_back(std::make_unique<LstmVideo>());
}

}  // namespace hetsgd::networks
