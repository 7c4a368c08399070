#include "result/table.hpp"

namespace hetsgd {
namespace {

TEST(TableTest, AlignsNumbersAndEscapes) {
  Table table({"name", "value"});
  table.add({"a", "1.5"});
  table.add({"long, \"name\"", "-"});
  EXPECT_EQ(table.format(OutputFormat::text),
            "name          value\n"
            "------------  -----\n"
            "a               1.5\n"
            "long, \"name\"      -\n");
  EXPECT_EQ(table.format(OutputFormat::markdown),
            "| name         | value |\n"
            "| ------------ | ----: |\n"
            "| a            |   1.5 |\n"
            "| long, \"name\" |     - |\n");
  EXPECT_EQ(table.format(OutputFormat::csv), "name,value\na,1.5\n\"long, \"\"name\"\"\",\n");
}

}  // namespace
}  // namespace hetsgd
