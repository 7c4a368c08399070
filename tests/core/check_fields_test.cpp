#include "core/json_fields.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

std::string said(const json& document, std::string_view field) {
  return test::error_of([&] { check_fields("f.json", document, {field}); }, ExitCode::data);
}

TEST(CheckFields, TakesWhatIsThere) {
  const json document = {
      {"a", {{"b", 1.5}}}, {"list", {{{"n", 1}}, {{"n", 2}}}}, {"none", nullptr}};
  EXPECT_NO_THROW(
      check_fields("f.json", document,
                   {"a object", "a.b number", "list list", "list[] object", "list[].n count",
                    "none text?", "absent list?", "absent[].n count"}));
}

TEST(CheckFields, NamesThePlaceOfWhatIsNot) {
  const json document = {{"a", {{"b", "x"}}}, {"list", {{{"n", 1}}, {{"n", -2}}}}};
  EXPECT_EQ(said(document, "c text"), "f.json: c: found nothing, expected a text");
  EXPECT_EQ(said(document, "a.b number"), "f.json: a.b: found \"x\", expected a number");
  EXPECT_EQ(said(document, "list[].n count"), "f.json: list[1].n: found -2, expected a count");
  EXPECT_EQ(said(json::array(), "a object"), "f.json: a: found nothing, expected an object");
}

}  // namespace
}  // namespace hetsgd
