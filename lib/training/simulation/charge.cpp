#include "training/simulation/charge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_fields.hpp"
#include "core/random.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "data/ctr_laws.hpp"
#include "data/generate.hpp"
#include "data/generate_ctr.hpp"
#include "graph/networks.hpp"
#include "graph/work.hpp"
#include "model/network/graph_model.hpp"

namespace hetsgd {

namespace {

constexpr double kVideoStep = 4.5e-3;  // seconds per step of 32 clips in lstm-video
constexpr double kClipSteps = 186;     // mean length of UCF101's clips

}  // namespace

Seconds video_batch_time(std::uint64_t seed, int rank, std::uint64_t iteration) {
  constexpr double kMedianSteps = 230, kSigma = 0.573, kFewest = 35, kMost = 1776;
  RandomStream stream(seed, Purpose::sequence_length, iteration, static_cast<std::uint32_t>(rank));
  const double steps = std::round(stream.lognormal(std::log(kMedianSteps), kSigma));
  return Seconds(kVideoStep * std::clamp(steps, kFewest, kMost));
}

namespace {

constexpr std::string_view kVideoCharge = "lstm-video";
constexpr Seconds kVideoMean{1.219};  // mean of video_batch_time()

// The stages that a fitted charge gives. The others follow from the network model.
constexpr std::array kFittedStages = {Stage::ids, Stage::sfp, Stage::fp,
                                      Stage::bp,  Stage::sbp, Stage::opt};

// Messages of row numbers cost latency alone, because the stage `ids` includes their bytes.
constexpr double kFreeIds = 1e-12;

std::string stage_name(Stage stage) {
  return std::string(kStageNames[static_cast<std::size_t>(stage)]);
}

FittedCharge load_fitted(const std::string& name_or_path) {
  const JsonFields fields =
      find_json_file("--charge", "charge", name_or_path, builtin_charge_files());
  fields.allow({"name", "source", "parameters", "rows_bytes", "stages_s"});
  FittedCharge fitted{.name = fields.text("name"),
                      .source = fields.text("source", ""),
                      .parameters = fields.number("parameters", {1, 1e15, ""}),
                      .rows_bytes = fields.number("rows_bytes", {1, 1e18, "bytes"}),
                      .stages = {}};
  std::vector<std::string> names;
  for (const Stage stage : kFittedStages) names.push_back(stage_name(stage));
  const JsonFields stages = fields.object("stages_s");
  stages.allow(names);
  for (const Stage stage : kFittedStages) {
    fitted.stages[stage] = Seconds(stages.number(stage_name(stage), kDurations));
  }
  return fitted;
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_fitted(const std::string& name_or_path) {
  return is_one_of(names_of(builtin_charge_files()), name_or_path) ||
         std::filesystem::exists(name_or_path);
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const NetworkInfo& info : builtin_networks()) names.push_back(info.name);
  names.emplace_back(TransformerWmt::kName);
  return names;
}

bool is_network_file(const std::string& path) {
  const JsonFields fields = find_json_file("--charge", "charge", path, {});
  const bool network = !fields.is_null("nodes"), fitted = !fields.is_null("stages_s");
  if (network != fitted) return network;
  refuse(path, fmt::format("{} of the keys nodes and stages_s", network ? "both" : "none"),
         "nodes for a network, or stages_s for a fitted charge", "", ExitCode::data);
}

// Completes a charge by a model with the fields that all kinds have. `facts` holds those of its
// kind.
Charge completed(Charge charge, const Model& real, nlohmann::json facts) {
  const std::uint64_t parameters = charge.model->parameters();
  charge.parameter_ratio = static_cast<double>(parameters) / static_cast<double>(real.parameters());
  facts["parameters"] = parameters;
  facts["parameter_ratio"] = charge.parameter_ratio;
  charge.facts = std::move(facts);
  return charge;
}

Charge network_charge(const TrainOptions& options, const Dataset& data, const Model& real) {
  const std::string& name = options.charge;
  const bool video = name == kVideoCharge;
  if (video && options.charge_batch) {
    refuse("--charge-batch", fmt::format("{} with --charge {}", *options.charge_batch, name),
           "none, because its times are those of batches of 32",
           "lstm-video?steps=186 is charged by its work");
  }
  const Graph graph = find_graph("--charge", name);
  Charge charge;
  charge.model = make_graph_model<float>(graph, data_shape(graph), GraphModelOptions());
  if (options.charge_batch) {
    charge.samples_per_real =
        static_cast<double>(*options.charge_batch) / static_cast<double>(options.batch_size);
  }
  nlohmann::json facts = {{"network", json_text(graph.name())},
                          {"multiply_adds_per_sample", multiply_adds(graph)},
                          {"samples_per_real", charge.samples_per_real}};
  const DatasetTotals totals = data.totals();
  if (video && totals.frames > 0) {
    charge.steps_per_real =
        kClipSteps * static_cast<double>(totals.rows) / static_cast<double>(totals.frames);
    facts["steps_per_real"] = charge.steps_per_real;
  } else if (video) {
    charge.step_time = [seed = options.seed](int worker, std::uint64_t iteration) {
      return video_batch_time(seed, worker, iteration);
    };
    facts["mean_step_s"] = kVideoMean.count();
  }
  return completed(std::move(charge), real, std::move(facts));
}

Charge sentence_charge(const TrainOptions& options, const Dataset& data, const Model& real) {
  const std::string& name = options.charge;
  Charge charge;
  charge.sentences = std::make_shared<const TransformerWmt>(name);
  if (options.charge_batch) {
    refuse("--charge-batch", fmt::format("{} with --charge {}", *options.charge_batch, name),
           "none, because its batches have sentences of their own");
  }
  const Graph& graph = charge.sentences->graph();
  charge.model = make_graph_model<float>(graph, data_shape(graph), GraphModelOptions());
  nlohmann::json facts = {{"network", json_text(name)}};
  const DatasetTotals totals = data.totals();
  if (data.tokens.vocabulary > 0) {
    if (charge.sentences->has_equal_tokens()) {
      refuse("--charge", name + " with rows of tokens as training data", "batch=sentences",
             "batch=tokens draws lengths, and these rows have their own");
    }
    charge.steps_per_real = TransformerWmt::kMeanSteps * static_cast<double>(totals.rows) /
                            static_cast<double>(totals.frames);
    facts["steps_per_real"] = charge.steps_per_real;
  }
  return completed(std::move(charge), real, std::move(facts));
}

Charge fitted_charge(const std::string& name, const Model& real, bool sharded) {
  if (!sharded) {
    refuse("--charge", name + " with --tables replicated",
           "--tables sharded, whose stages it charges");
  }
  Charge charge;
  const FittedCharge& fitted = charge.fitted.emplace(load_fitted(name));
  charge.parameter_ratio = fitted.parameters / static_cast<double>(real.parameters());
  nlohmann::json stages;
  for (const Stage stage : kFittedStages) stages[stage_name(stage)] = fitted.stages[stage].count();
  charge.facts = {{"fitted", fitted.name},           {"source", json_text(fitted.source)},
                  {"parameters", fitted.parameters}, {"rows_bytes", fitted.rows_bytes},
                  {"stages_s", std::move(stages)},   {"parameter_ratio", charge.parameter_ratio}};
  return charge;
}

// Every field has rows for missing and for rare values beside its ids.
DataShape full_clicks(const ClickLaws& laws) {
  DataShape shape{.task = Task::binary, .dense_columns = static_cast<Index>(laws.numbers.size())};
  shape.first_category.push_back(0);
  for (const FieldLaw& law : laws.fields) {
    const std::uint64_t rows = shape.first_category.back() + law.ids + 2;
    shape.first_category.push_back(static_cast<Index>(rows));
  }
  return shape;
}

Charge click_charge(const std::string& preset, const Dataset& data, const ModelFactory& factory,
                    const Model& real, bool sharded) {
  const ClickLaws laws = click_laws(preset);
  Charge charge;
  charge.model = factory.make(full_clicks(laws));
  if (sharded) charge.model = charge.model->dense_part();
  charge.lookups_per_real =
      static_cast<double>(laws.fields.size()) / static_cast<double>(data.fields.count());
  const DataShape& shape = charge.model->data();
  nlohmann::json facts = {{"preset", preset},
                          {"dense_columns", shape.dense_columns},
                          {"fields", shape.fields()},
                          {"categories", shape.categories()},
                          {"lookups_per_real", charge.lookups_per_real}};
  return completed(std::move(charge), real, std::move(facts));
}

Charge sparse_charge(const std::string& preset, const Dataset& data, const ModelFactory& factory,
                     const Model& real) {
  const GeneratorOptions full = generator_preset(preset);
  const DatasetTotals totals = data.totals();
  const auto rows = static_cast<double>(totals.rows);
  if (totals.nonzeros == 0 || totals.labels == 0) {
    throw data_error("--charge: the training data have no {}, expected some to scale up",
                     totals.nonzeros == 0 ? "features" : "labels");
  }
  Charge charge;
  charge.model = factory.make({full.features, full.labels, real.data().task});
  charge.nonzeros_per_real = full.nonzeros_per_sample * rows / static_cast<double>(totals.nonzeros);
  charge.labels_per_real = full.labels_per_sample * rows / static_cast<double>(totals.labels);
  nlohmann::json facts = {{"preset", preset},
                          {"features", full.features},
                          {"labels", full.labels},
                          {"nonzeros_per_real", charge.nonzeros_per_real},
                          {"labels_per_real", charge.labels_per_real}};
  return completed(std::move(charge), real, std::move(facts));
}

[[noreturn]] void refuse_name(const std::string& name, bool clicks) {
  std::vector<std::string> names = clicks ? click_preset_names() : generator_preset_names();
  for (std::string& network : network_names()) names.push_back(std::move(network));
  for (std::string& fitted : names_of(builtin_charge_files())) names.push_back(std::move(fitted));
  refuse("--charge", quote(name),
         alternatives(names) + " or a file of a network or of a fitted charge",
         did_you_mean(name.substr(0, name.find('?')), names));
}

}  // namespace

bool is_network_charge(const std::string& name_or_path) {
  if (is_one_of(network_names(), name_or_path.substr(0, name_or_path.find('?')))) return true;
  return std::filesystem::is_regular_file(name_or_path) && is_network_file(name_or_path);
}

Charge make_charge(const TrainOptions& options, const Dataset& data, const Model& real) {
  const std::string& name = options.charge;
  if (is_network_charge(name)) {
    if (options.tables.sharded) {
      refuse("--charge", name + ", a network, with --tables sharded", "--tables replicated");
    }
    return TransformerWmt::is_named(name) ? sentence_charge(options, data, real)
                                          : network_charge(options, data, real);
  }
  if (options.charge_batch) {
    refuse("--charge-batch", fmt::format("{} with --charge {}", *options.charge_batch, quote(name)),
           "a network there");
  }
  const bool clicks = data.fields.count() > 0, sharded = options.tables.sharded;
  const ModelFactory& factory = *options.model_factory;
  if (is_one_of(click_preset_names(), name)) {
    if (clicks) return click_charge(name, data, factory, real, sharded);
    refuse("--charge", name + ", click data, with training data of sparse features", "click data");
  }
  if (is_fitted(name)) return fitted_charge(name, real, sharded);
  if (!is_one_of(generator_preset_names(), name)) refuse_name(name, clicks);
  if (!clicks) return sparse_charge(name, data, factory, real);
  refuse("--charge", name + ", a data set of sparse features, with click data as training data",
         "a data set of clicks, such as criteo");
}

Seconds mean_step(const Charge* charge, Seconds of_work) {
  return charge && charge->step_time ? kVideoMean : of_work;
}

BatchShape charged_shape(const Charge& charge, const BatchShape& batch) {
  return {.samples = batch.samples * charge.samples_per_real,
          .nonzeros = batch.nonzeros * charge.nonzeros_per_real,
          .labels = batch.labels * charge.labels_per_real,
          .lookups = batch.lookups * charge.lookups_per_real};
}

std::optional<Work> given_step(const Charge& charge, const Model& real, const BatchShape& batch) {
  if (charge.fitted) return Work{.given_s = charge.fitted->step_s()};
  const double steps = real.counted_steps(batch) * charge.steps_per_real;
  if (charge.sentences) {
    return steps > 0 ? charge.sentences->work_of_steps(steps) : charge.sentences->mean_work();
  }
  if (charge.steps_per_real == 0) return std::nullopt;
  return Work{.given_s = kVideoStep * steps};
}

void charge_cluster(const Charge& charge, ClusterOptions& options) {
  options.payload_scale = options.work_scale = charge.parameter_ratio;
  options.rows_scale = options.ids_scale = charge.lookups_per_real;
  options.step_time = charge.step_time;
  if (charge.sentences && charge.steps_per_real == 0) {
    options.step_time = [sentences = charge.sentences, seed = options.seed,
                         profiles = options.profiles,
                         precision = options.precision](int worker, std::uint64_t iteration) {
      const std::size_t device = std::min(at(worker), profiles.size() - 1);
      return profiles[device].seconds(sentences->drawn_work(seed, worker, iteration), precision);
    };
  }
  if (!charge.fitted) return;
  options.rows_part_bytes = charge.fitted->rows_bytes / options.workers;
  options.ids_scale = kFreeIds;
}

Seconds host_pass(const DeviceProfile& host, double n) {
  return host.seconds({.operations = n, .bytes = n * sizeof(float), .launches = 1});
}

}  // namespace hetsgd
