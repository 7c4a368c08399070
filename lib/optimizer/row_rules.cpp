#include "optimizer/row_rules.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <variant>

#include "core/error.hpp"
#include "optimizer/families.hpp"

namespace hetsgd {
namespace {

// None: the optimizer has no rule for rows.
std::optional<TableRule> rule_of(const OptimizerOptions& options) {
  if (options.table_rule != TableRule::same) return options.table_rule;
  switch (options.kind) {
    case OptimizerKind::sgd:
      return TableRule::sgd;
    case OptimizerKind::adagrad:
      return TableRule::adagrad;
    case OptimizerKind::adam:
      return TableRule::adam;
    case OptimizerKind::momentum:
    case OptimizerKind::nesterov:
    case OptimizerKind::lars:
    case OptimizerKind::lamb:
      return std::nullopt;
  }
  HETSGD_CHECK(false);
}

bool is_table(const Tensor& tensor) { return tensor.row > 0; }

class WithRowRule final : public Optimizer {
 public:
  WithRowRule(const OptimizerOptions& options, Device& device, std::size_t n,
              const std::vector<Tensor>& tensors)
      : o_(options), elements_(n) {
    const auto rest = std::ranges::find_if_not(tensors, is_table);
    HETSGD_CHECK(std::none_of(rest, tensors.end(), is_table));
    tables_.assign(tensors.begin(), rest);
    table_ = rest == tensors.end() ? n : rest->offset;
    for (std::size_t i = 0; i < row_states(options); ++i) state_[i] = zeros(device, table_);
    std::vector<Tensor> dense(rest, tensors.end());
    for (Tensor& tensor : dense) tensor.offset -= table_;
    if (!dense.empty()) dense_ = make_optimizer(options, device, n - table_, dense);
  }

  void update(Device& device, double learning_rate, std::span<const float> g,
              std::span<float> w) override {
    update_tables(learning_rate, g.data(), w.data(), [&](const auto& rule, auto... operands) {
      device.apply(table_, rule, operands...);
    });
    update_dense(device, learning_rate, g, w);
  }

  void update_touched(Device& device, double learning_rate, std::span<const float> g,
                      std::span<const std::vector<std::uint32_t>> rows,
                      std::span<float> w) override {
    update_tables(learning_rate, g.data(), w.data(), [&](const auto& rule, auto... operands) {
      for (std::size_t i = 0; i < tables_.size(); ++i) {
        device.apply_rows(rows[i], tables_[i].row, rule, (operands + tables_[i].offset)...);
      }
    });
    update_dense(device, learning_rate, g, w);
  }

  double passes() const override {
    const double table = 3 + 2 * static_cast<double>(row_states(o_));
    if (!dense_) return table;
    const double share = static_cast<double>(table_) / static_cast<double>(elements_);
    return share * table + (1 - share) * dense_->passes();
  }
  void fields(Archive& fields) override {
    fields("state0", state_[0]);
    fields("state1", state_[1]);
    fields("t", t_);
    if (dense_) fields("dense", *dense_);
  }

 private:
  // apply(rule, operands): operands from the beginning of the tables.
  template <class Apply>
  void update_tables(double learning_rate, const float* g, float* w, const Apply& apply) {
    std::visit(
        [&](const auto& rule) {
          using Rule = std::remove_cvref_t<decltype(rule)>;
          if constexpr (std::is_same_v<Rule, rule::FusedAddScaled<float>>) apply(rule, g, w);
          if constexpr (std::is_same_v<Rule, rule::AdaGradStep<float>>) {
            apply(rule, g, state_[0].data(), w);
          }
          if constexpr (std::is_same_v<Rule, rule::LazyMomentStep<float>>) {
            apply(rule, g, state_[0].data(), state_[1].data(), w);
          }
        },
        row_rule(o_, learning_rate, ++t_));
  }

  void update_dense(Device& device, double learning_rate, std::span<const float> g,
                    std::span<float> w) {
    if (dense_) dense_->update(device, learning_rate, g.subspan(table_), w.subspan(table_));
  }

  OptimizerOptions o_;
  std::size_t elements_;  // of the whole vector
  std::vector<Tensor> tables_;
  std::size_t table_ = 0;  // elements of tables, the first ones
  Buffer state_[2];        // h; or m and v
  std::uint64_t t_ = 0;
  std::unique_ptr<Optimizer> dense_;  // null: there is nothing else
};

}  // namespace

RowRule<float> row_rule(const OptimizerOptions& options, double learning_rate, std::uint64_t t) {
  const auto lr = static_cast<float>(learning_rate * options.table_rate);
  switch (rule_of(options).value()) {
    case TableRule::sgd:
      return rule::FusedAddScaled<float>{-lr};
    case TableRule::adagrad:
      return rule::AdaGradStep<float>{.step = lr, .epsilon = static_cast<float>(options.epsilon)};
    case TableRule::adam:
      return rule::LazyMomentStep<float>{moments(options, t, 1), lr};
    case TableRule::same:
      break;
  }
  HETSGD_CHECK(false);
}

std::size_t row_states(const OptimizerOptions& options) {
  switch (rule_of(options).value()) {
    case TableRule::adagrad:
      return 1;
    case TableRule::adam:
      return 2;
    case TableRule::sgd:
    case TableRule::same:
      break;
  }
  return 0;
}

bool needs_row_rule(const OptimizerOptions& options, const std::vector<Tensor>& tensors) {
  const std::optional<TableRule> rule = rule_of(options);
  if (!rule || std::ranges::none_of(tensors, is_table)) return false;
  if (options.table_rate != 1 || options.weight_decay != 0) return true;
  switch (*rule) {
    case TableRule::sgd:
      return options.kind != OptimizerKind::sgd;
    case TableRule::adagrad:  // the same bits in one pass over all, where a norm spans all
      return options.kind != OptimizerKind::adagrad || options.clip_norm == 0;
    case TableRule::adam:
    case TableRule::same:
      break;
  }
  return true;
}

std::unique_ptr<Optimizer> make_with_row_rule(const OptimizerOptions& options, Device& device,
                                              std::size_t n, const std::vector<Tensor>& tensors) {
  return std::make_unique<WithRowRule>(options, device, n, tensors);
}

void check_row_rule(const OptimizerOptions& options, const std::vector<Tensor>& tensors) {
  const bool asked = options.table_rule != TableRule::same || options.table_learning_rate;
  if (std::ranges::none_of(tensors, is_table)) {
    if (!asked) return;
    refuse(options.table_rule != TableRule::same ? "--table-optimizer" : "--table-learning-rate",
           "a model without an embedding table", "one such as wide_deep, deepfm or dcn");
  }
  if (!rule_of(options)) {
    refuse("--optimizer", "one that has no rule for embedding rows", "sgd, adagrad or adam",
           "--table-optimizer chooses another optimizer for embedding rows");
  }
  if (options.clip_norm > 0 && needs_row_rule(options, tensors)) {
    refuse("--clip-norm",
           fmt::format("{} where embedding rows have their own optimizer", options.clip_norm),
           "off: no norm spans both",
           "sgd and adagrad update all parameters alike without --weight-decay and table options");
  }
}

}  // namespace hetsgd
