#include "result/table.hpp"

#include <gtest/gtest.h>

namespace hetsgd {
namespace {

TEST(TableTest, LatexHasTheRulesOfBooktabs) {
  Table table({"name", "time_s to p1>=0.6", "p"});
  table.add({"ssp (a_b={1})", "1.5 [1, inf]", "<0.0001"});
  table.add({"50 % & more", "inf", "-"});
  EXPECT_EQ(table.format(TableFormat::latex),
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "name & time\\_s to p1$\\geq$0.6 & p \\\\\n"
            "\\midrule\n"
            "ssp (a\\_b=\\{1\\}) & 1.5 [1, $\\infty$] & $<$0.0001 \\\\\n"
            "50 \\% \\& more & $\\infty$ & - \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

TEST(TableTest, AlignsNumbersAndEscapes) {
  Table table({"name", "value"});
  table.add({"a", "1.5"});
  table.add({"long, \"name\"", "-"});
  EXPECT_EQ(table.format(TableFormat::text),
            "name          value\n"
            "------------  -----\n"
            "a               1.5\n"
            "long, \"name\"      -\n");
  EXPECT_EQ(table.format(TableFormat::markdown),
            "| name         | value |\n"
            "| ------------ | ----: |\n"
            "| a            |   1.5 |\n"
            "| long, \"name\" |     - |\n");
  EXPECT_EQ(table.format(TableFormat::csv), "name,value\na,1.5\n\"long, \"\"name\"\"\",\n");
}

}  // namespace
}  // namespace hetsgd
