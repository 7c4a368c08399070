// A network of tokens learns a language of known entropy. Label `slow`: the release run alone.

#include "data/generate_language.hpp"
#include "support/run.hpp"

namespace hetsgd::test {
namespace {

// A model that sees two tokens of context cannot reach this loss, and none is better than the law
// that made the text. The deviation of -ln p is below 1.8, so the standard error of the mean over
// the 128,000 targets of the test part is below 0.005.
TEST(Language, AGptFindsTheCopiesWithinSixHundredSteps) {
  const LanguageBounds bounds = language_bounds(parse_language_spec("generate:language"));
  EXPECT_NEAR(bounds.context[2], 2.7474, 1e-4);
  const Record run = run_training(
      "--train generate:language --test generate:language --cache false --model gpt-micro "
      "--algorithm sgd --batch-size 32 --max-samples 19200 --evaluate-every 6400 --optimizer adam "
      "--decoupled-weight-decay --weight-decay 0.1 --learning-rate 3e-3 --schedule cosine "
      "--decay-epochs 0.96");
  EXPECT_LT(run.curve.back().test_loss(), bounds.context[2]);
  for (const CurvePoint& point : run.curve) {
    EXPECT_GT(point.test_loss(), bounds.truth - 4 * 0.005) << point.samples_count;
  }
}

}  // namespace
}  // namespace hetsgd::test
