// The registry of models: a name, options, and how to make a model for some data. One file per
// model, which ends with one registration line. See README.md of this folder for the shape of a
// file.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "model/model.hpp"
#include "model/objective.hpp"

namespace hetsgd {

// The part of the header block that `hetsgd models` prints.
struct ModelInfo {
  std::string name;       // --model
  std::string title;      // for tables and plots
  std::string idea;       // two sentences
  std::string paper;      // where it comes from
  std::string objective;  // what it is trained with, by task
  std::string blocks;     // its parameters: names, shapes, which are row-sparse
  std::string cost;       // operations of a step
  // Whether the model reads dense columns and categories, images, or tokens, in place of sparse
  // features.
  bool reads_fields = false, reads_images = false, reads_tokens = false;
};

// A kind of model with the values of its options. They are declared, set by the parser and
// validated. Then the factory makes any number of models, also for data of another shape
// (--charge).
class ModelFactory {
 public:
  virtual ~ModelFactory() = default;
  virtual void declare(OptionSet& options) = 0;
  // Refuses invalid values (usage errors that name the option) before anything is loaded.
  virtual void validate() const = 0;
  // The default of --learning-rate before the factor of the method (AlgorithmInfo::rate_factor),
  // asked for before any option is set. On data that the model reads, plain SGD and asgd with four
  // workers end better with it than a constant guess.
  virtual double learning_rate() const { return 1; }
  // The most tokens of a row that the model takes, asked for likewise. The default of --block is no
  // longer.
  virtual std::int64_t longest_row() const { return std::numeric_limits<std::int64_t>::max(); }
  // The objective of training on such data, which is also what measurements show.
  virtual const BasicObjective<float>& objective(Task task) const {
    return usual_objective<float>(task);
  }
  // Why a model with these options runs on CPUs alone; empty: it runs on all devices.
  virtual std::string cpu_only() const { return ""; }
  virtual std::unique_ptr<BasicModel<float>> make(const DataShape& data) const = 0;
  // The same model in double, for checks of gradients.
  virtual std::unique_ptr<BasicModel<double>> make_double(const DataShape& data) const = 0;
};

struct RegisteredModel {
  ModelInfo info;
  std::function<std::unique_ptr<ModelFactory>()> make;
};

// A model is a class template over the number type, made of (DataShape, Options). Options has
// declare(OptionSet&), which keeps references to its members, and validate() const. Where the
// factory's default does not fit, it also has learning_rate(), objective(Task) and cpu_only(), all
// const.
template <template <class> class M, class Options>
class FactoryOf final : public ModelFactory {
 public:
  void declare(OptionSet& set) override { options_.declare(set); }
  void validate() const override { options_.validate(); }
  double learning_rate() const override {
    if constexpr (requires { options_.learning_rate(); }) return options_.learning_rate();
    return ModelFactory::learning_rate();
  }
  const BasicObjective<float>& objective(Task task) const override {
    if constexpr (requires { options_.objective(task); }) return options_.objective(task);
    return ModelFactory::objective(task);
  }
  std::string cpu_only() const override {
    if constexpr (requires { options_.cpu_only(); }) return options_.cpu_only();
    return ModelFactory::cpu_only();
  }
  std::unique_ptr<BasicModel<float>> make(const DataShape& data) const override {
    return std::make_unique<M<float>>(data, options_);
  }
  std::unique_ptr<BasicModel<double>> make_double(const DataShape& data) const override {
    return std::make_unique<M<double>>(data, options_);
  }

 private:
  Options options_;
};

// A model's own file calls: `const bool mlp_registered = register_model<Mlp, MlpOptions>({...});`
bool register_model_raw(RegisteredModel model);
template <template <class> class M, class Options>
bool register_model(ModelInfo info) {
  return register_model_raw(
      {std::move(info), [] { return std::make_unique<FactoryOf<M, Options>>(); }});
}

// All models, sorted by name.
const std::vector<RegisteredModel>& models();
// The names of the models that read fields, which have embedding tables.
std::vector<std::string> models_with_tables();
// Throws Error(usage) for an unknown name. The message says `where` the name was given and lists
// the known names, nearest spelling first.
const RegisteredModel& find_model(const std::string& name, const std::string& where = "--model");

}  // namespace hetsgd
