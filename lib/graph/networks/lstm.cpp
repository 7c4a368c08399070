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
  }
  Graph build(const std::string& name) const override {
    Builder net(name, {2048, steps_, 1});
    net.lstm(2048);
    net.fc(512);
    net.dropout(0.5);
    net.fc(classes_);
    return net.finish();
  }

 private:
  int steps_ = 186, classes_ = 101;  // the mean of UCF101's clips
};

}  // namespace

void add_lstm(std::vector<std::unique_ptr<Family>>& list) {
  list.push_back(std::make_unique<LstmVideo>());
}

}  // namespace hetsgd::networks
