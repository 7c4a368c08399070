#include "data/ctr_laws.hpp"

#include <array>
#include <initializer_list>

namespace hetsgd {

namespace {

// A mask of columns, which count from 1.
std::uint32_t mask_of(std::initializer_list<unsigned> columns) {
  std::uint32_t mask = 0;
  for (const unsigned column : columns) mask |= std::uint32_t{1} << (column - 1);
  return mask;
}

// Columns I1..I13 and C1..C26. The shares of missing values are those of the 200 rows that Criteo
// shows.
ClickLaws criteo_columns() {
  ClickLaws laws;
  laws.numbers = {{.7, .9},   {2.1, 2.0, -1}, {2.3, 1.3}, {1.8, 1.0}, {7.1, 2.9},
                  {3.5, 1.8}, {1.6, 1.3},     {2.0, 1.2}, {3.6, 1.7}, {.4, .4},
                  {.9, .8},   {.3, .5},       {1.9, 1.1}};
  laws.no_value = {{mask_of({3, 4, 12, 16, 21, 24}), .04},
                   {mask_of({6}), .14},
                   {mask_of({19, 20, 25, 26}), .43},
                   {mask_of({22}), .77}};
  laws.no_number = {{mask_of({1, 10}), .45}, {mask_of({3}), .20}, {mask_of({4, 13}), .20},
                    {mask_of({5}), .03},     {mask_of({6}), .24}, {mask_of({7, 9, 11}), .05},
                    {mask_of({12}), .77}};
  return laws;
}

}  // namespace

ClickLaws kaggle_laws() {
  ClickLaws laws = criteo_columns();
  laws.fields = {{1460, 1.61},        {583, .95},    {10131227, 1.076, 4}, {2202608, 1.29, 12},
                 {305, 2.19},         {24, 1.77},    {12517, .71},         {633, 1.97},
                 {3, 3.37},           {93145, 1.24}, {5683, .72},          {8351593, 1.101, 4},
                 {3194, .70},         {27, 1.55},    {14992, .79},         {5461306, 1.165, 8},
                 {10, 1.35},          {5652, .91},   {2173, 1.77},         {4, 1.06},
                 {7046547, 1.129, 6}, {18, 1.85},    {15, 1.57},           {286181, 1.06},
                 {105, 1.34},         {142572, 1.04}};
  return laws;
}

ClickLaws terabyte_laws() {
  constexpr double kExponent = 1.05, kShift = 8;
  constexpr std::uint64_t kOpen = 1'000'000;  // fields with more ids keep getting new ones
  ClickLaws laws = criteo_columns();
  constexpr std::array<std::uint64_t, 26> kIds = {
      227605432, 39060,     17295,    7424,      20265,  3,     7122, 1543, 63,
      130229467, 3067956,   405282,   10,        2209,   11938, 155,  4,    976,
      14,        292775614, 40790948, 187188510, 590152, 12973, 108,  36};
  for (const std::uint64_t ids : kIds) {
    laws.fields.push_back({ids, kExponent, ids > kOpen ? kShift : 0});
  }
  return laws;
}

ClickLaws tiny_laws() {
  ClickLaws laws;
  laws.fields = {{2, 1.5}, {10, 1.3}, {50, 1.1}, {200, 1.1}, {600, 1.05}, {2000, 1.1}};
  laws.numbers = {{.7, .9}, {2.1, 2.0, -1}, {2.3, 1.3}};
  laws.no_value = {{mask_of({3, 5}), .04}, {mask_of({4}), .30}};
  laws.no_number = {{mask_of({1, 3}), .45}};
  return laws;
}

ClickLaws click_laws(std::string_view preset) {
  if (preset == "criteo") return kaggle_laws();
  return preset == "ctr-tiny" ? tiny_laws() : terabyte_laws();
}

}  // namespace hetsgd
