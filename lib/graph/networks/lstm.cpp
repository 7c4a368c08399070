// The recurrent model of RNA (Yang 2022, 5.5.2.3): features of a video's frames in, its class out.
#include "graph/networks/builder.hpp"

namespace hetsgd::networks {
namespace {

void declare_video(OptionSet& set, Settings& settings) {
  set.add("steps", settings.steps, "Frames of a clip.").range(1, 1e5);
  declare_classes(set, settings);
  set.add("size", settings.size, "Elements of a frame.").range(1, 1e5);
  set.add("units", settings.units, "Units of the lstm.").range(1, 1e5);
  set.add("dense", settings.dense, "Units of the dense layer after the lstm.").range(1, 1e5);
  set.add("dropout", settings.dropout, "Share of the dense units to drop.").range(0, 0.99);
}

Graph lstm_video(const std::string& name, const Settings& settings) {
  Builder net(name, {settings.size, settings.steps, 1});
  net.lstm(settings.units);
  net.fc(settings.dense);
  net.dropout(settings.dropout);
  net.fc(settings.classes);
  return net.finish();
}

}  // namespace

void add_lstm(std::vector<Network>& list) {
  // The mean length of UCF101's clips, and its number of classes.
  const Settings usual{
      .classes = 101, .size = 2048, .steps = 186, .units = 2048, .dense = 512, .dropout = 0.5};
  list.push_back({{"lstm-video", "LSTM of RNA, steps x 2048",
                   "Hochreiter, Schmidhuber 1997; RNA (Yang 2022, chapter 5)"},
                  usual,
                  declare_video,
                  lstm_video});
}

}  // namespace hetsgd::networks
